// SPDX-License-Identifier: Apache-2.0
// Command lines are parsed in this process; what becomes of a mistake and of --help under mpiexec is shown by one each.
#include <sstream>

#include "apps/common/run_app.hpp"
#include "apps/train/options.hpp"
#include "apps/train/precision.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

CommandLine parse(const std::string& arguments) {
  std::vector<std::string> words{"train"};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_options(static_cast<int>(pointers.size()), pointers.data());
}

/// Expects a refusal that holds each of these parts once.
void expect_mistake(const std::string& arguments, const std::vector<std::string>& parts) {
  try {
    (void)parse(arguments);
    ADD_FAILURE() << "accepted: " << arguments;
  } catch (const UsageError& error) {
    for (const std::string& part : parts) EXPECT_EQ(occurrences(error.what(), part), 1) << part << '\n' << error.what();
  }
}

struct Mistake {
  std::string name;
  std::string arguments;
  std::vector<std::string> parts;  ///< of the message
};

class UsageMistake : public testing::TestWithParam<Mistake> {};

TEST_P(UsageMistake, IsRefused) { expect_mistake(GetParam().arguments, GetParam().parts); }

TEST(Usage, AMistakeIsReportedOnceAndReturnsTwo) {
  const auto result = run_train(2, "--batchsize 64");
  expect_refused(result, 2, {"no option '--batchsize'", "did you mean '--batch'?"});
  EXPECT_EQ(occurrences(result.output, "ranks on"), 0) << "nothing is started\n" << result.output;
}

const Mistake mistakes[] = {
    {"MisspeltOption", "--batchsize 64", {"no option '--batchsize'", "did you mean '--batch'?"}},
    {"MisspeltOptionWithValue", "--bucket_mb=2", {"no option '--bucket_mb'", "did you mean '--bucket-mb'?"}},
    {"KernelsBesideExact", "--kernels f --exact", {"--kernels has no meaning with --exact"}},
    {"KernelsOfTheReference", "--kernels f --precision float64", {"--kernels has no meaning with --ops reference"}},
    {"AbbreviatedOption", "--epoch 2", {"no option '--epoch'", "did you mean '--epochs'?"}},
    {"CheckOfWhat", "--check maybe", {"'maybe'", "'--check'"}},
    {"Word", "lenet", {"'lenet' belongs to no option"}},
    {"MissingValue", "--steps", {"required argument for option '--steps' is missing"}},
    {"NoNumber", "--batch many", {"'many'", "'--batch'"}},
    {"Repeated", "--seed 1 --seed 2", {"'--seed'", "more than once"}},
    {"MisspeltModel", "--model resnet-20", {"--model resnet-20: ", "did you mean 'resnet20'?", "lenet|", "|resnet20"}},
    {"MisspeltDataset", "--dataset synthetic-digit", {"did you mean 'synthetic-digits'?"}},
    {"MisspeltAlgorithm", "--algorithm rign", {"--algorithm rign: ", "did you mean 'ring'?"}},
    {"MisspeltCompression", "--compress bf61", {"--compress bf61: ", "did you mean 'bf16'?", "none|bf16|fp16"}},
    {"CompressionOfFloat64", "--compress bf16 --precision float64", {"--compress bf16 is for float32"}},
    {"CompressionWithTreeOrder",
     "--compress fp16 --algorithm tree-order",
     {"--compress fp16 with --algorithm tree-order"}},
    {"PartsWithTreeOrder", "--zero --algorithm tree-order", {"--zero with --algorithm tree-order"}},
    {"MisspeltOps", "--ops onednnn", {"did you mean 'onednn'?", "onednn|reference"}},
    {"MisspeltPrecision", "--precision flaot64", {"did you mean 'float64'?", "float32|float64|bf16|mixed-fp16"}},
    {"MisspeltDevice", "--device cpus", {"did you mean 'cpu'?", "cpu|cuda"}},
    {"TuningOfANamedAlgorithm", "--tuning f --algorithm tree", {"--tuning has no meaning with --algorithm tree"}},
    {"ExplainTheMpiLibrary", "--explain --algorithm mpi", {"--explain has no meaning with --algorithm mpi"}},
    {"Cuda",
     "--device cuda",
     {"--device cuda: the trainer's own operators for GPUs come later", "DataParallel with Device::cuda",
      "comm-bench --device cuda"}},
    {"OneDnnInFloat64", "--ops onednn --precision float64", {"--ops onednn does not compute in float64"}},
    {"NesterovWithoutMomentum", "--nesterov --momentum 0", {"--nesterov needs a momentum above 0"}},
    {"FolderOfADrawnDataSet",
     "--data-dir .",
     {"--data-dir has no meaning with --dataset synthetic-digits", "mnist or cifar10"}},
    {"MnistWithoutFolder", "--dataset mnist", {"--dataset mnist needs --data-dir"}},
    {"CifarWithoutFolder", "--dataset cifar10", {"--dataset cifar10 needs --data-dir"}},
    {"NegativeRate", "--lr -0.1", {"--lr -0.1: the learning rate must be positive"}},
    {"RateNotANumber", "--lr nan", {"--lr nan: "}},
    {"MomentumOfOne", "--momentum 1", {"--momentum 1: "}},
    {"NoEpochs", "--epochs 0", {"--epochs 0: at least 1 epoch is needed"}},
    {"MisspeltPass",
     "--without-pass fuse,reuse",
     {"--without-pass reuse: ", "did you mean 'fuse'?", "fuse|recompute|reuse-memory"}},
    {"NoMicroBatches", "--accumulate 0", {"--accumulate 0: at least 1 micro-batch is needed"}},
    {"NegativeNorm", "--clip-norm -1", {"--clip-norm -1: it cannot be negative"}},
    {"DecayOfOne", "--ema 1", {"--ema 1: it must be in 0"}},
    {"NegativeLossScale", "--loss-scale -2", {"--loss-scale -2: it cannot be negative"}},
    {"NegativeSteps", "--steps -1", {"--steps -1: it cannot be negative"}},
    {"EmptyBucket", "--bucket-mb 0", {"--bucket-mb 0: "}},
    {"MissingConfiguration", "--config missing.conf", {"--config missing.conf: the file cannot be read"}},
};

INSTANTIATE_TEST_SUITE_P(Train, UsageMistake, testing::ValuesIn(mistakes),
                         [](const auto& mistake) { return mistake.param.name; });

TEST(Configuration, TheCommandLineGoesBeforeTheFileAndTheFileBeforeTheDefaults) {
  const SmallDigits digits;
  data::write_plain(digits.file("run.conf"), "batch = 24  # samples\nseed = 7\nalgorithm = tree\nnesterov = no\n");
  const Options options =
      parse("--config " + digits.path("run.conf") + digits.arguments() + " --seed 8 --steps 1").options;
  EXPECT_EQ(options.trainer.batch.value, 24);
  EXPECT_EQ(options.trainer.seed, 8);
  EXPECT_EQ(name(options.method), "tree");
  EXPECT_FALSE(options.trainer.sgd.nesterov);
}

TEST(Configuration, LowerPrecisionsHaveFloat32WeightsAndFloat16ALossScale) {
  const auto trainer = [](const std::string& arguments) { return parse(arguments).options.trainer; };
  for (const char* precision : {"float32", "bf16", "mixed-fp16"}) {
    EXPECT_EQ(trainer(std::string("--precision ") + precision).precision, DType::float32);
    EXPECT_EQ(parse(std::string("--precision ") + precision).options.ops, "onednn");
  }
  EXPECT_EQ(trainer("--precision bf16").loss_scale.initial, 0);
  EXPECT_EQ(trainer("--precision mixed-fp16").loss_scale.initial, 65536);
  EXPECT_EQ(trainer("--precision mixed-fp16 --loss-scale 8").loss_scale.initial, 8);
  EXPECT_EQ(trainer("--precision mixed-fp16 --loss-scale 0").loss_scale.initial, 0);
  EXPECT_EQ(parse("--precision bf16").options.precision.half, DType::bfloat16);
  EXPECT_EQ(parse("--precision mixed-fp16 --ops reference").options.precision.half, DType::float16);
  EXPECT_FALSE(parse("--precision float64").options.precision.half);
}

TEST(Configuration, KernelsOfBf16AreTakenWhereTheProcessorHasInstructionsForThem) {
  const Precision brain = precision_of("bf16");
  const auto onednn = ops::make_onednn_ops(1);
  const ops::HalfKernels native = onednn->half_kernels(DType::bfloat16);
  const auto chosen = in_precision(ops::make_onednn_ops(1), brain);
  EXPECT_EQ(chosen->half_kernels(DType::bfloat16).exist, !native.instructions.empty());
  const std::string how = emulation_of(brain, *chosen);
  EXPECT_EQ(how.find("in float32: "), native.instructions.empty() ? 0 : std::string::npos) << how;
  EXPECT_EQ(emulation_of(brain, *in_precision(ops::make_reference_ops(), brain)).rfind("in float32: ", 0), 0U);
  EXPECT_EQ(emulation_of(precision_of("float32"), *onednn), "");
  if (!native.exist) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto forced = ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::Halves::native);
  const std::string by = native.instructions.empty() ? "conversions" : std::string(native.instructions);
  EXPECT_EQ(emulation_of(brain, *forced), "in float32 where there are no kernels of it, and else computed by " + by);
}

TEST(Configuration, AMistakeInTheFileNamesTheFile) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.conf";
  const std::string in_file = " in " + file;
  data::write_plain(file, "batchsize = 24\n");
  expect_mistake("--config " + file, {"no option 'batchsize'" + in_file, "did you mean 'batch'?"});
  data::write_plain(file, "batch = many\n");
  expect_mistake("--config " + file, {"'many'", in_file});
  data::write_plain(file, "batch\n");
  expect_mistake("--config " + file, {"invalid line 'batch'", in_file});
  data::write_plain(file, "model = lennet\n");
  expect_mistake("--config " + file, {"--model lennet: ", "did you mean 'lenet'?"});
}

TEST(Usage, MessagesAreInTheNameOfTheProgram) {
  for (const char* path : {"digits", "./digits", "/usr/bin/digits"}) EXPECT_EQ(program_name(1, &path), "digits");
  for (const char* path : {"", "bin/"}) EXPECT_EQ(program_name(1, &path), "lockstep");
  EXPECT_EQ(program_name(0, nullptr), "lockstep");
}

TEST(Help, NamesEveryOptionAndTheExitCodesOnce) {
  const auto result = run_train(2, "--help");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "Exit codes: 0 "), 1) << result.output;
  for (const char* option : {"config",
                             "dataset",
                             "data-dir",
                             "model",
                             "epochs",
                             "steps",
                             "batch",
                             "lr",
                             "momentum",
                             "nesterov",
                             "weight-decay",
                             "initial",
                             "seed",
                             "threads",
                             "workers",
                             "bucket-mb",
                             "algorithm",
                             "device",
                             "ops",
                             "precision",
                             "timeout",
                             "log-every",
                             "metrics",
                             "trace",
                             "help",
                             "version",
                             "progress-thread",
                             "tuning",
                             "explain",
                             "compress",
                             "freeze",
                             "decay-vectors",
                             "explain-step",
                             "sync-bn",
                             "accumulate",
                             "clip-norm",
                             "ema",
                             "zero",
                             "loss-scale",
                             "without-pass"}) {
    EXPECT_EQ(occurrences(result.output, "\n  --" + std::string(option) + ' '), 1) << option << result.output;
  }
}

TEST(Version, NamesTheCommitAndEveryLibraryOnce) {
  const auto result = run_train(2, "--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "commit "), 1) << result.output;
  for (const char* library : {"\nMPI ", "\nhwloc ", "\nBoost ", "\noneDNN ", "\nzlib ", "\nCUDA "}) {
    EXPECT_EQ(occurrences(result.output, library), 1) << library << result.output;
  }
}

}  // namespace
}  // namespace lockstep::train
