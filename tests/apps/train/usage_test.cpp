// SPDX-License-Identifier: Apache-2.0
// Command lines are parsed in this process. One test each shows the effect of a mistake and of --help under mpiexec.
#include <algorithm>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <variant>

#include "apps/cli/run_app.hpp"
#include "apps/train/cluster/cluster.hpp"
#include "apps/train/options/options.hpp"
#include "apps/train/options/precision.hpp"
#include "apps/train/options/rows.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

/// @param run  the file of the run that --resume means
CommandLine parse(const std::string& arguments, const OptionsOfRun& run = {}) {
  std::vector<std::string> words{"train"};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_options(static_cast<int>(pointers.size()), pointers.data(), {}, &run);
}

/// Expects a refusal that contains each of these parts once.
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
  std::vector<std::string> parts;  ///< parts of the message
};

class UsageMistake : public testing::TestWithParam<Mistake> {};

TEST_P(UsageMistake, IsRefused) { expect_mistake(GetParam().arguments, GetParam().parts); }

TEST(Usage, AMistakeIsReportedOnceAndReturnsTwo) {
  const auto result = run_train(2, "--bacth 64");
  expect_refused(result, 2, {"no option '--bacth'", "did you mean '--batch'?"});
  EXPECT_EQ(occurrences(result.output, "ranks on"), 0) << "nothing is started\n" << result.output;
}

const Mistake mistakes[] = {
    {"MisspeltOption", "--bacth 64", {"no option '--bacth'", "did you mean '--batch'?"}},
    {"MisspeltOptionWithValue", "--bucket_md=2", {"no option '--bucket_md'", "did you mean '--bucket-mb'?"}},
    {"OptionThatIsLikeNone", "--tint 2", {"no option '--tint'; --help lists all"}},
    {"KernelsBesideExact", "--kernels f --exact", {"--kernels has no meaning with --exact"}},
    {"KernelsOfTheReference", "--kernels f --precision float64", {"--kernels has no meaning with --ops reference"}},
    {"AbbreviatedOption", "--algo ring", {"no option '--algo'", "did you mean '--algorithm'?"}},
    {"CheckOfWhat", "--check maybe", {"--check maybe: it must be yes or no"}},
    {"Word", "lenet", {"'lenet' belongs to no option"}},
    {"MissingValue", "--steps", {"--steps needs a value: a whole number from 0 to 1000000000000, or all"}},
    {"MissingValueBeforeAnOption", "--steps --check", {"--steps needs a value: "}},
    {"NoNumber", "--batch many", {"--batch many: it must be a whole number from 1 to 1000000000"}},
    {"Repeated", "--seed 1 --seed 2", {"'--seed'", "more than once"}},
    {"MisspeltModel", "--model resnet-20", {"--model resnet-20: ", "did you mean 'resnet20'?", "lenet|", "|resnet20"}},
    {"StemOfAModelWithOne",
     "--model lenet --stem cifar",
     {"--stem cifar has no meaning with --model lenet, whose first layers have one form"}},
    {"MisspeltDataset", "--dataset synthetic-digit", {"did you mean 'synthetic-digits'?"}},
    {"MisspeltAlgorithm", "--algorithm rign", {"--algorithm rign: ", "did you mean 'ring'?"}},
    {"MisspeltCompression", "--compress bf61", {"--compress bf61: ", "did you mean 'bf16'?", "none|bf16|fp16"}},
    {"CompressionOfFloat64", "--compress bf16 --precision float64", {"--compress bf16 is for float32"}},
    {"CompressionWithTreeOrder",
     "--compress fp16 --algorithm tree-order",
     {"--compress fp16 with --algorithm tree-order"}},
    {"PartsWithTreeOrder", "--zero --algorithm tree-order", {"--zero with --algorithm tree-order"}},
    {"MisspeltOps", "--ops onednnn", {"did you mean 'onednn'?", "onednn|reference"}},
    {"MisspeltPrecision", "--precision flaot64", {"did you mean 'float64'?", "float32|float64|tf32|bf16|mixed-fp16"}},
    {"MisspeltDevice", "--device cpus", {"--device cpus: give auto, cpu, cuda, or the indices of GPUs"}},
    {"IndicesWithAGap", "--device 0,,1", {"--device 0,,1: give auto, cpu, cuda, or the indices of GPUs"}},
    {"NegativeIndex", "--device=-1", {"--device -1: give auto, cpu, cuda, or the indices of GPUs"}},
    {"TuningOfANamedAlgorithm", "--tuning f --algorithm tree", {"--tuning has no meaning with --algorithm tree"}},
    {"ExplainTheMpiLibrary", "--explain --algorithm mpi", {"--explain has no meaning with --algorithm mpi"}},
    {"BalanceOnGpus",
     "--device 0,1 --shards 4 --balance",
     {"--balance is for CPUs, and has no meaning with --device 0,1"}},
    {"CompressionOnGpus", "--device cuda --compress bf16", {"--compress is for CPUs"}},
    {"OpsOnGpus", "--device cuda --ops reference", {"--ops chooses a library for CPUs"}},
    {"Float64OnGpus", "--device cuda --precision float64", {"--precision float64 is for CPUs"}},
    {"Tf32OnCpus", "--device cpu --precision tf32", {"--precision tf32 is for GPUs"}},
    {"OneDnnInFloat64", "--ops onednn --precision float64", {"--ops onednn does not compute in float64"}},
    {"MisspeltSchedule",
     "--lr-schedule cosin",
     {"did you mean 'cosine'?", "constant|step|cosine|polynomial|one-cycle"}},
    {"GammaOfAnotherSchedule",
     "--lr-schedule cosine --lr-gamma 0.5",
     {"--lr-gamma has no meaning with --lr-schedule cosine; it belongs to step"}},
    {"MilestonesOfAModelWithoutThem",
     "--lr-milestones 0.5",
     {"--lr-milestones has no meaning with --lr-schedule cosine"}},
    {"FinalRateOfAConstant",
     "--lr-schedule constant --lr-final 0.1",
     {"--lr-final has no meaning with --lr-schedule constant; it belongs to cosine, polynomial, one-cycle"}},
    {"PowerOfAnotherSchedule", "--lr-power 2", {"--lr-power has no meaning with --lr-schedule cosine"}},
    {"MilestonesInEpochs",
     "--lr-schedule step --lr-milestones 8,11",
     {"--lr-milestones 8: it must be a number above 0 and below 1; milestones are fractions of the run"}},
    {"MilestonesThatDescend",
     "--lr-schedule step --lr-milestones 0.75,0.5",
     {"--lr-milestones 0.75,0.5: milestones must ascend"}},
    {"WarmUpBeforeOneCycle",
     "--lr-schedule one-cycle --warmup 1",
     {"--warmup has no meaning with --lr-schedule one-cycle, which begins with a warm-up of its own"}},
    {"WarmUpTwice", "--warmup 1 --warmup-steps 9", {"--warmup-steps beside --warmup: "}},
    {"MisspeltScaling",
     "--lr-scaling lienar",
     {"did you mean 'linear'?", "none|linear|sqrt, or a number above 0 and at most 1e+06"}},
    {"ScalingToNothing", "--lr-scaling 0", {"--lr-scaling 0: there is no such choice"}},
    {"BaseBatchOfAFactor",
     "--lr-scaling 2 --base-batch 64",
     {"--base-batch has no meaning with --lr-scaling 2; it belongs to linear, sqrt"}},
    {"BatchOfAllAndOfEach", "--batch 64 --batch-per-rank 32", {"--batch-per-rank beside --batch: "}},
    {"NesterovWithoutMomentum", "--nesterov --momentum 0", {"--nesterov needs a momentum above 0"}},
    {"NesterovOfAdamW", "--optimizer adamw --nesterov", {"--nesterov belongs to --optimizer sgd"}},
    {"SecondDecayOfSgd", "--beta2 0.9", {"--beta2 has no meaning with --optimizer sgd: only adamw or lamb has it"}},
    {"TrustOfLamb", "--optimizer lamb --trust-coefficient 1", {"only lars has it"}},
    {"NormsOfPartsOfShards", "--optimizer lars --zero --shards 4", {"--optimizer lars with --zero and --shards"}},
    {"FolderOfADrawnDataSet",
     "--data-dir .",
     {"--data-dir has no meaning with --dataset synthetic-digits", "mnist or cifar10"}},
    {"MnistWithoutFolder", "--dataset mnist", {"--dataset mnist needs --data-dir"}},
    {"CifarWithoutFolder", "--dataset cifar10", {"--dataset cifar10 needs --data-dir"}},
    {"AugmentationAndNone", "--augment crop,none", {"--augment crop,none: none cannot stand beside other words"}},
    {"UnknownAugmentation", "--augment crop,flop", {"there is no augmentation 'flop'", "did you mean 'flip'?"}},
    {"NegativeRate", "--lr -0.1", {"--lr -0.1: it must be a number above 0 and at most 1e+38"}},
    {"RateNotANumber", "--lr nan", {"--lr nan: "}},
    {"MomentumOfOne", "--momentum 1", {"--momentum 1: "}},
    {"NoEpochs", "--epochs 0", {"--epochs 0: it must be a whole number from 1 to 1000000000"}},
    {"MisspeltPass",
     "--without-pass fuse,reuse",
     {"'reuse' is no such word", "did you mean 'reuse-memory'?", "fuse|recompute|reuse-memory"}},
    {"NoMicroBatches", "--accumulate 0", {"--accumulate 0: it must be a whole number from 1 to 65536"}},
    {"WeightsBesideAResumedRun", "--weights x --resume best", {"--weights beside --resume best, which continues with"}},
    {"PartsOfNoWeights", "--partial-weights", {"--partial-weights needs --weights FILE"}},
    {"EvaluationOfNothing", "--eval-only", {"--eval-only needs weights: give either --weights FILE, or --resume"}},
    {"EvaluationOfPartsOfWeights",
     "--eval-only --weights x --partial-weights",
     {"--eval-only beside --partial-weights"}},
    {"EvaluationWithOptionsOfTraining",
     "--eval-only --weights x --lr 0.1 --epochs 3 --batch 8",
     {"--eval-only trains nothing, so leave out --lr, --epochs;"}},
    {"FallbackOfNoFolder",
     "--save-dir none --save-fallback x",
     {"--save-fallback has no meaning with --save-dir none"}},
    {"SaveDirThatIsHere", "--save-dir .", {"--save-dir . exists", "give it a name, such as --save-dir ./run"}},
    {"SaveDirAbove", "--save-dir runs/../", {"--save-dir runs/../ exists", "such as --save-dir runs/../run"}},
    {"EventFilesOfNoRun",
     "--save-dir none --tensorboard",
     {"--tensorboard writes into --save-dir, which is none: name a folder"}},
    {"EventFilesOfAnEvaluation",
     "--eval-only --weights x --tensorboard d",
     {"--tensorboard shows steps, and --eval-only trains none"}},
    {"TimeWithoutAUnit",
     "--max-time 90",
     {"--max-time 90: it must be a time such as 90s, 10m, 23h50m or 1d12h, or off"}},
    {"TimeInTheWrongOrder", "--max-time 50m23h", {"--max-time 50m23h: it must be a time such as 90s"}},
    {"NoTime", "--max-time 0s", {"--max-time 0s: it must be a time such as 90s"}},
    {"NegativeNorm", "--clip-norm -1", {"--clip-norm -1: it must be a number of at least 0 and at most 1e+30, or off"}},
    {"DecayOfOne", "--ema 1", {"--ema 1: it must be a number of at least 0 and below 1, or off"}},
    {"AnchorsOfAModelWithoutAny", "--anchors 10,13", {"--anchors has no meaning with --model lenet"}},
    {"AnchorsThatAreNoNumbers", "--model yolov5n --anchors 10,x", {"--anchors 10,x: give auto, default, or the width"}},
    {"AnchorsWithoutExtent", "--model yolov5n --anchors 10,0", {"--anchors 10,0: give auto, default, or the width"}},
    {"RampWithoutAnAverage", "--ema-ramp 10", {"--ema-ramp needs --ema"}},
    {"AverageOfStatisticsOnly", "--ema-statistics", {"--ema-statistics needs --ema"}},
    {"ClippedGradientsOfSeveralSteps",
     "--clip-norm 1 --nominal-batch 512",
     {"--clip-norm beside --nominal-batch 512: ", "(--nominal-batch off)"}},
    {"WarmUpOfAMomentumThatThereIsNot",
     "--warmup-momentum 0.8 --optimizer adamw",
     {"--warmup-momentum has no meaning with --optimizer adamw"}},
    {"LeastOfAWarmUpInSteps",
     "--warmup-steps 10 --warmup-least-steps 5",
     {"--warmup-least-steps beside --warmup-steps"}},
    {"OneCycleFromEpochToEpoch",
     "--lr-schedule one-cycle --lr-by epoch",
     {"--lr-by epoch has no meaning with --lr-schedule one-cycle"}},
    {"StartOfTheWarmUpOfOneCycle",
     "--lr-schedule one-cycle --warmup-start 0",
     {"--warmup-start has no meaning with --lr-schedule one-cycle"}},
    {"WindowWithoutALossScale", "--loss-scale-window 5", {"--loss-scale-window has no meaning without a loss scale"}},
    {"EmptyWindowOfTheLossScale", "--loss-scale-window 0", {"--loss-scale-window 0: it must be a whole number from 1"}},
    {"NegativeLossScale", "--loss-scale -2", {"--loss-scale -2: it must be "}},
    {"EarlyStopWithoutPatience",
     "--early-stop accuracy",
     {"--early-stop accuracy: it must be a metric and a whole number of at least 1, such as accuracy:5, or off"}},
    {"EarlyStopWithoutMetric", "--early-stop :5", {"--early-stop :5: it must be a metric"}},
    {"EarlyStopAtOnce", "--early-stop loss:0", {"--early-stop loss:0: it must be a metric"}},
    {"EarlyStopAfterHalf", "--early-stop loss:1.5", {"--early-stop loss:1.5: it must be a metric"}},
    {"EarlyStopWithoutEvaluations",
     "--early-stop loss:2 --eval-interval never",
     {"--early-stop loss:2 has no meaning with --eval-interval never"}},
    {"BestWithoutEvaluations",
     "--best loss --eval-interval never",
     {"--best loss has no meaning with --eval-interval"}},
    {"NegativeSteps", "--steps -1", {"--steps -1: it must be "}},
    {"EmptyBucket", "--bucket-mb 0", {"--bucket-mb 0: "}},
    {"MissingConfiguration", "--config missing.conf", {"--config missing.conf: the file cannot be read"}},
    {"ConfigurationThatIsAFolder", "--config /", {"--config /: the file cannot be read", "Is a directory"}},
    {"ConfigurationWithoutEnd", "--config /dev/zero", {"--config /dev/zero: ", "longer than 1048576 bytes"}},
    {"ValueThatWouldBeSubstituted", "--lr %value%", {"--lr %value%: it must be a number"}},
    {"NameThatWouldBeSubstituted", "--%canonical_option% 1", {"no option '--%canonical_option%'"}},
    {"EmptyTable", "--tuning=", {"--tuning '': it must be the name of a file, not empty"}},
    {"EmptyMetrics", "--metrics=", {"--metrics '': it must be the name of a file, not empty"}},
    {"TooManyThreads", "--threads 100000", {"--threads 100000: it must be a whole number from 0 to 1024, or auto"}},
    {"TooManyWorkers", "--workers 2147483647", {"--workers 2147483647: ", "from 0 to 256"}},
    {"TooManyShards", "--shards 2147483647", {"--shards 2147483647: ", "from 0 to 65536, or off"}},
    {"TooManyMicroBatches", "--accumulate 2147483647", {"--accumulate 2147483647: ", "from 1 to 65536"}},
    {"MoreShardsThanSamples",
     "--shards 65 --batch 64",
     {"--shards 65 cuts a --batch of 64 into parts without samples"}},
    {"MoreMicroBatchesThanSamples", "--accumulate 65 --batch 64", {"--accumulate 65 cuts a --batch of 64 into"}},
    {"HugeBucket", "--bucket-mb 1e13", {"--bucket-mb 1e13: ", "above 0 and at most 65536"}},
    {"EndlessEpochs", "--epochs 9223372036854775807", {"--epochs 9223372036854775807: ", "from 1 to 1000000000"}},
    {"NumberBeyond64Bits", "--epochs 99999999999999999999", {"--epochs 99999999999999999999: "}},
    {"NegativeSeed", "--seed -1", {"--seed -1: it must be a whole number from 0 to 9223372036854775807"}},
    {"NoDeadline", "--comm-timeout 0", {"--comm-timeout 0: it must be a number of at least 0.001 and at most 1e+07"}},
    {"NegativeDeadline", "--comm-timeout -1", {"--comm-timeout -1: "}},
    {"DeadlineThatIsNotANumber", "--comm-timeout nan", {"--comm-timeout nan: "}},
    {"EndlessDeadline", "--comm-timeout inf", {"--comm-timeout inf: "}},
    {"SeveralMistakes",
     "--hyp a.yaml --threads many --epochs 3 --crop-size 64 640 --bacth 2 b --nosave",
     {"--hyp: ", "\n  --threads many: ", "\n  --crop-size: ", "\n  there is no option '--bacth'", "\n  --nosave: "}},
    {"OptionTwiceByTwoNames", "--lr 1 --learning_rate 1", {"'--lr' is given more than once"}},
    {"OverrideWithoutValue", "-o", {"-o needs name=value"}},
    {"OverrideThatIsOutOfRange", "-o epoch=0", {"--epochs 0: it must be "}},
    {"OverrideThatIsNoAssignment", "-o epoch", {"invalid line 'epoch'", "'name = value'"}},
    {"OverrideByTwoNames", "-o epoch=1 max_epochs=2", {"'--epochs' is given more than once"}},
    {"EmptyValueByAnotherName", "--learning_rate=", {"--lr '': it must be a number above 0"}},
    {"EmptyValueOfASwitch", "--check=", {"--check '': it must be yes or no"}},
    {"EmptyValueOfANameThatWouldBeSubstituted", "--%option%=", {"no option '--%option%'"}},
    {"UnknownOptionThatWouldBeSubstituted", "--%original_token% --%value%=1", {"no option '--%original_token%'"}},
    {"FirstOfTwoMistakes", "--batch many --bacth 3", {"--batch many: it must be "}},
    {"OptionBehindTwoDashes", "-- --check", {"'--check' belongs to no option"}},
    {"OneDash", "-lr 1", {"no option '-lr'"}},
    {"OneDashBehindASwitch", "--sync-bn -np 2", {"-np: processes are started by mpirun, srun or lockstep-launch"}},
    {"OneDashBehindAnOption", "--metrics -np 2", {"--metrics needs a value: the name of a file"}},
    {"WordBehindAValue", "--epochs=3 5", {"'5' belongs to no option"}},
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
  EXPECT_EQ(options.algorithm, "tree");
  EXPECT_FALSE(options.trainer.optimizer.nesterov);
}

TEST(Configuration, LinesAreThoseOfIniAndOfYamlFiles) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.yml";
  data::write_plain(file, "\xef\xbb\xbf# YAML\r\nbatch_size_total: 3\r\n");
  expect_mistake("-c " + file, {"no option 'batch_size_total'"});
  data::write_plain(
      file,
      "\xef\xbb\xbf# YAML\r\nepoch: 7\r\nbase_lr: \"0.25\"\r\nsync_bn: true # all ranks\r\n  metrics = 'a # b'\n");
  const Options options = parse("-c " + file + " -o log_iters=9 seed=4").options;
  EXPECT_EQ(options.trainer.epochs, 7);
  EXPECT_EQ(options.trainer.schedule.peak, 0.25);
  EXPECT_TRUE(options.trainer.sync_batch_norm);
  EXPECT_EQ(options.metrics, "a # b");
  EXPECT_EQ(options.trainer.log_every, 9);
  EXPECT_EQ(options.trainer.seed, 4U);
}

/// Returns the value of a text option after it has gone through a configuration file.
std::string written_and_read(const Program& program, const std::string& option, const std::string& value) {
  OptionValues values(program);
  values.give(option, value);
  return read_configuration(values.as_configuration({}), "run.conf", program).get<std::string>(option);
}

TEST(Configuration, OfARunRepeatsEveryText) {
  const Registry registry;
  Options options;
  const Program program = describe_train("train", registry, options);
  int texts = 0;
  for (const OptionGroup& group : program.groups) {
    for (const Option& option : group.options) {
      if (!std::holds_alternative<Text>(option.domain) || option.name == "config") continue;
      ++texts;
      for (const std::string value :
           {"plain", "a b", "a #b", "#", " front", "back\t", "back\r", "it's", "'", "''", "'whole'", "\"", "\"whole\"",
            "one \" two ' three # four", "'a' # 'b'", "= : =", "a\\b"})
        EXPECT_EQ(written_and_read(program, option.name, value), value) << option.name;
    }
  }
  EXPECT_GT(texts, 10);
  OptionValues values(program);
  values.give("metrics", std::string("a\nseed = 7"));
  const std::string text = values.as_configuration({});
  EXPECT_EQ(occurrences(text, "\n# metrics is left out, because its value has a line break\n"), 1) << text;
  EXPECT_FALSE(read_configuration(text, "run.conf", program).has("metrics"));
}

TEST(Resume, TakesTheOptionsOfTheRunUnlessTheUserSaysOtherwise) {
  const OptionsOfRun run{"run/options.conf",
                         "dataset = mnist\ndata-dir = d\nmodel = resnet20\nbatch = 12\nwarmup = 0\nlr = 0.25\n"
                         "label-smoothing = 0.5\nlr-schedule = step\nlr-gamma = 0.5\ndevice = cuda\nops = reference\n"};
  const Options same = parse("--resume run --lr 0.5", run).options;
  EXPECT_EQ(same.dataset + same.data_dir + same.model, "mnistdresnet20");
  EXPECT_EQ(same.trainer.batch.value, 12);
  EXPECT_EQ(same.trainer.schedule.peak, 0.5) << "the command line goes first";
  EXPECT_EQ(same.graph_edits.size(), 1U) << "each is applied once";
  EXPECT_EQ(same.device + same.library.name, "autoonednn") << "another machine may have others";
  EXPECT_EQ(same.options_file, run.path);
  for (const char* of_machine : {"\ndevice =", "\nops =", "\nbucket-mb ="})
    EXPECT_EQ(same.configuration.find(of_machine), std::string::npos) << of_machine << same.configuration;
  const Options other =
      parse("--eval-only --resume run --dataset synthetic-digits --batch-per-rank 4 --model lenet", run).options;
  EXPECT_EQ(other.data_dir, "") << "which has no meaning there";
  EXPECT_EQ(other.batch_per_rank, 4);
  EXPECT_EQ(parse("--resume run --lr-schedule cosine --warmup-steps 3", run).options.warmup_steps, 3);
  expect_mistake("--resume run --lr-schedule cosine --lr-gamma 0.5", {"--lr-gamma has no meaning"});
  expect_mistake("--eval-only --resume run", {"there is no options.conf in the folder of its run", "give --dataset"});
  try {
    (void)parse("--resume run", {"run/options.conf", "seed = 7\nbatch = many\n"});
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(occurrences(error.what(), "--batch many in run/options.conf, line 2: "), 1) << error.what();
  }
}

TEST(Configuration, NestingIsWhatIsSaidToBeWrong) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.yml";
  for (const auto& [text, heading] :
       {std::pair("metric: COCO\nGlobal:  # all\n  epoch_num: 3\n", "'Global:' before line 3"),
        {"Train:\n\n- Resize\n", "'Train:' before line 3"},
        {"_BASE_: [\n  'base.yml',\n]\n", "'_BASE_: [' before line 2"},
        {"[train]\r\nlr = 1\r\n", "'[train]' before line 2"}}) {
    data::write_plain(file, text);
    expect_mistake("-c " + file, {"--config " + file + ": options cannot be nested", heading});
  }
  data::write_plain(file, "seed:\nlr: 1\n");
  expect_mistake("-c " + file, {"invalid line 'seed:'"});
}

TEST(Configuration, OfAnyBytesIsTakenOrRefusedBriefly) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.conf";
  const std::string good = "lr = 0.5\nmodel: resnet20 # c\nmetrics = \"a b\"\nsteps=10\nnesterov=no\n";
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 4 == 0 ? std::string(random() % 300, 'x') : good;
    for (auto change = random() % 9 + (round % 4 == 0 ? 300 : 0); change > 0 && !text.empty(); --change) {
      text[random() % text.size()] =
          static_cast<char>(random() % 2 == 0 ? random() % 256 : "=:#\"'\n-._ %"[random() % 11]);
    }
    data::write_plain(file, text);
    try {
      (void)parse("--config " + file);
    } catch (const UsageError& error) {
      std::istringstream lines(error.what());
      int count = 0;
      for (std::string line; std::getline(lines, line); ++count) EXPECT_LT(line.size(), 1000U) << line;
      EXPECT_LE(count, 6) << "a line for each of the file's\n" << error.what();
    }
  }
}

TEST(Usage, MessagesRepeatLittleOfWhatWasTyped) {
  const std::string much(1'000'000, 'x');
  for (const std::string& arguments : {much, "--" + much, "--lr " + much, "--model " + much, "--without-pass " + much,
                                       "-o " + much + "=1", "--config " + much}) {
    try {
      (void)parse(arguments);
      ADD_FAILURE() << "accepted";
    } catch (const UsageError& error) {
      EXPECT_LT(std::string(error.what()).size(), 1000U);
    }
  }
}

TEST(Configuration, NumbersThatDifferInTheLastBitAreDifferentSettings) {
  const auto lr = [](const char* value) {
    const Options options = parse(std::string("--lr ") + value).options;
    return std::find_if(options.settings.begin(), options.settings.end(),
                        [](const Term& s) { return s.name == "--lr"; })
        ->value;
  };
  EXPECT_EQ(lr("0.1"), "0.1");
  EXPECT_EQ(lr("0.1000001"), "0.1000001");
  EXPECT_NE(lr("0.1"), lr("0.10000000000000002"));
  EXPECT_EQ(lr("0.1"), lr("1e-1"));
}

TEST(Configuration, TextsThatDifferFarBehindAreDifferentSettings) {
  const auto frozen = [](const std::string& names) {
    for (const Term& setting : parse("--freeze " + names).options.settings) {
      if (setting.name == "--freeze") return setting.value;
    }
    return std::string();
  };
  EXPECT_EQ(frozen("layer1,layer2"), "layer1,layer2");
  const std::string much(10'000, 'x');
  EXPECT_NE(frozen(much + "a"), frozen(much + "b"));
  EXPECT_LT(frozen(much).size(), 200U);
  EXPECT_EQ(frozen("a\x1e\x1f").find_first_of("\x1e\x1f"), std::string::npos);
}

TEST(Configuration, TimesAreSumsOfTheirUnits) {
  for (const auto& [text, seconds] : {std::pair("off", 0.0),
                                      {"90s", 90.0},
                                      {"10m", 600.0},
                                      {"1h", 3600.0},
                                      {"23h50m", 85800.0},
                                      {"1d2h3m4s", 93784.0}})
    EXPECT_EQ(parse(std::string("--max-time ") + text).options.max_seconds, seconds) << text;
}

TEST(Configuration, WhatRanksMayHaveForThemselvesIsNotCompared) {
  for (const Term& setting : parse("--threads 1 --data-dir . --dataset mnist").options.settings) {
    EXPECT_NE(setting.name, "--threads");
    EXPECT_NE(setting.name, "--data-dir");
  }
}

TEST(Configuration, LowerPrecisionsHaveFloat32WeightsAndFloat16ALossScale) {
  const auto trainer = [](const std::string& arguments) { return parse(arguments).options.trainer; };
  for (const char* precision : {"float32", "bf16", "mixed-fp16"}) {
    EXPECT_EQ(trainer(std::string("--precision ") + precision).precision, DType::float32);
    EXPECT_EQ(parse(std::string("--precision ") + precision).options.library.name, "onednn");
  }
  EXPECT_EQ(trainer("--precision bf16").step.loss_scale.initial, 0);
  EXPECT_EQ(trainer("--precision mixed-fp16").step.loss_scale.initial, 65536);
  EXPECT_EQ(trainer("--precision mixed-fp16 --loss-scale 8").step.loss_scale.initial, 8);
  EXPECT_EQ(trainer("--precision mixed-fp16 --loss-scale 0").step.loss_scale.initial, 0);
  EXPECT_EQ(trainer("--precision mixed-fp16").step.loss_scale.interval, 2000);
  EXPECT_EQ(trainer("--precision mixed-fp16 --loss-scale-window 100").step.loss_scale.interval, 100);
  EXPECT_EQ(parse("--precision bf16").options.precision.half, DType::bfloat16);
  EXPECT_EQ(parse("--precision mixed-fp16 --ops reference").options.precision.half, DType::float16);
  EXPECT_FALSE(parse("--precision float64").options.precision.half);
}

TEST(Configuration, KernelsOfBf16AreTakenWhereTheyAreFast) {
  const Precision brain = precision_of("bf16");
  const std::vector<ComputeLibrary> libraries = bundled_libraries();
  const auto onednn = ops::make_onednn_ops(1);
  const ops::HalfKernels native = onednn->half_kernels(DType::bfloat16);
  const auto chosen = make_ops(libraries.front(), brain, 1, false);
  EXPECT_EQ(chosen->half_kernels(DType::bfloat16).exist, native.are_fast);
  const std::string why = native.instructions.empty()
                              ? "in float32: "
                              : "in float32, which takes less time than " + std::string(native.instructions);
  const std::string how = emulation_of(brain, *chosen);
  EXPECT_EQ(how.find(why), native.are_fast ? std::string::npos : 0) << how;
  EXPECT_EQ(emulation_of(brain, *make_ops(libraries.back(), brain, 1, false)).rfind("in float32: ", 0), 0U);
  EXPECT_EQ(emulation_of(precision_of("float32"), *onednn), "");
  if (!native.exist) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto forced = ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::HalfPrecision::native);
  const std::string by = native.instructions.empty() ? "conversions" : std::string(native.instructions);
  EXPECT_EQ(emulation_of(brain, *forced), "in float32 where there are no kernels of it, and else computed by " + by);
}

GlobalBatch batch_of(const std::string& arguments, int ranks) { return global_batch(ranks, parse(arguments).options); }

TEST(Configuration, TheScheduleIsTheModelsUnlessAnotherIsChosen) {
  const auto schedule = [](const std::string& arguments) { return parse(arguments).options.trainer.schedule; };
  EXPECT_EQ(schedule("").decay, nn::Decay::cosine);
  EXPECT_EQ(schedule("").final_fraction, 0);
  EXPECT_EQ(schedule("--lrf 0.01").final_fraction, 0.01);
  EXPECT_EQ(schedule("--lr-schedule one-cycle").final_fraction, nn::one_cycle_final_fraction);
  EXPECT_EQ(schedule("--lr-schedule one-cycle --lr-final 0").final_fraction, 0);
  EXPECT_EQ(schedule("--lr-schedule step").milestones, (std::vector{0.5, 0.75}));
  const nn::LearningRateSchedule step = schedule("--lr-schedule step --lr-milestones 0.6,0.9 --gamma 0.2");
  EXPECT_EQ(step.decay, nn::Decay::step);
  EXPECT_EQ(step.milestones, (std::vector{0.6, 0.9}));
  EXPECT_EQ(step.gamma, 0.2);
  EXPECT_EQ(schedule("--lr-schedule polynomial --lr-power 0.9").power, 0.9);
  EXPECT_EQ(parse("--warmup_iters 500").options.warmup_steps, 500);
}

TEST(Configuration, TheRecipeIsTheModelsUnlessAnotherIsChosen) {
  const trainer::TrainerOptions usual = parse("").options.trainer;
  EXPECT_EQ(usual.nominal_batch, 0);
  EXPECT_EQ(usual.schedule.warmup_start, std::nullopt);
  EXPECT_EQ(usual.optimizer, (nn::OptimizerOptions{.momentum = 0.9}));
  EXPECT_FALSE(usual.step.times_samples);
  const trainer::TrainerOptions given =
      parse(
          "--nbs 64 --warmup_bias_lr 0.1 --warmup_momentum 0.8 --warmup-start 0 --loss-times-batch --ema 0.9999 "
          "--ema-ramp 2000 --ema-statistics --decay-vectors no")
          .options.trainer;
  EXPECT_EQ(given.nominal_batch, 64);
  EXPECT_EQ(given.schedule.warmup_start, 0);
  EXPECT_EQ(given.schedule.warmup_bias_rate, 0.1);
  EXPECT_EQ(given.schedule.warmup_momentum, 0.8);
  EXPECT_EQ(given.optimizer, (nn::OptimizerOptions{.momentum = 0.9, .decay_vectors = false, .bias_rate = true}));
  EXPECT_TRUE(given.step.times_samples);
  EXPECT_EQ(given.step.ema_ramp, 2000);
  EXPECT_TRUE(given.step.ema_statistics);
}

TEST(Configuration, TheBatchOfARankTimesTheRanksIsTheGlobalBatch) {
  EXPECT_EQ(batch_of("--batch-per-rank 24", 3).samples.value, 72);
  EXPECT_EQ(batch_of("--batch_size_per_card 24", 1).samples.value, 24);
  EXPECT_EQ(batch_of("--batch 24", 3).samples.value, 24);
  EXPECT_NO_THROW((void)batch_of("--batch-per-rank 2 --shards 6", 3));
  EXPECT_THROW((void)batch_of("--batch-per-rank 2 --shards 7", 3), UsageError);
  EXPECT_THROW((void)batch_of("--batch-per-rank 2 --accumulate 7", 3), UsageError);
}

/// The usual batch of lenet is 128.
TEST(Configuration, TheLearningRateIsScaledWithTheBatch) {
  const auto peak = [](const std::string& arguments, int ranks) {
    return batch_of("--lr 0.25 " + arguments, ranks).peak;
  };
  EXPECT_EQ(peak("--batch 512", 1), 0.25);
  EXPECT_EQ(peak("--batch 512 --lr-scaling linear", 1), 1);
  EXPECT_EQ(peak("--batch 512 --lr-scaling sqrt", 1), 0.5);
  EXPECT_EQ(peak("--batch 512 --lr-scaling linear --base-batch 1024", 1), 0.125);
  EXPECT_EQ(peak("--batch-per-rank 128 --lr-scaling linear", 3), 0.75);
  EXPECT_EQ(peak("--batch-per-rank 128 --lr-scaling 2", 3), 0.5);
}

TEST(Configuration, AMistakeInTheFileNamesTheFile) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.conf";
  const std::string in_file = " in " + file;
  data::write_plain(file, "batchsize = 24\n");
  expect_mistake("--config " + file, {"batchsize" + in_file + ", line 1: ", "use --batch N"});
  data::write_plain(file, "\nbacth = 24\n");
  expect_mistake("--config " + file, {"no option 'bacth'" + in_file + ", line 2", "did you mean 'batch'?"});
  data::write_plain(file, "batch = many\n");
  expect_mistake("--config " + file, {"--batch many" + in_file + ", line 1: it must be "});
  data::write_plain(file, "batch\n");
  expect_mistake("--config " + file, {"invalid line 'batch'", in_file});
  for (const char* line :
       {"[batch = 24, lr = 0.1]", "{batch: 24}", "batch = 24, seed 3", "- batch: 24", "Global:", "= 3"}) {
    data::write_plain(file, line);
    EXPECT_THROW((void)parse("--config " + file), UsageError) << line;
  }
  data::write_plain(file, "lr = %value%\n%invalid_line%\n");
  expect_mistake("--config " + file, {"--lr %value%" + in_file});
  data::write_plain(file, "%invalid_line%\n");
  expect_mistake("--config " + file, {"invalid line '%invalid_line%'" + in_file});
  data::write_plain(file, "seed = 1\nseed = 1\n");
  expect_mistake("--config " + file, {"'--seed' is given more than once" + in_file + ", line 2"});
  data::write_plain(file, "shear: 0.1\nlr: many\nmosaic: 1.0\n");
  expect_mistake("--config " + file, {"shear" + in_file + ", line 1: ", "\n  --lr many" + in_file + ", line 2: ",
                                      "\n  mosaic" + in_file + ", line 3: "});
  std::string many;
  for (int i = 0; i < 30; ++i) many += "nosave = yes\n";
  data::write_plain(file, many);
  expect_mistake("--config " + file, {", line 20: ", "\n  and perhaps more"});
  data::write_plain(file, "config = other.conf\n");
  expect_mistake("--config " + file, {"a configuration file cannot name another one"});
  data::write_plain(file, "model = lennet\n");
  expect_mistake("--config " + file, {"--model lennet" + in_file, "did you mean 'lenet'?"});
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
  const std::string text = testing_support::in_one_line(result.output);
  for (const char* workload : {"Workloads, with their models: classification (a class for each image): lenet, ",
                               "; detection (the box and class of each object): detector, yolov5n, yolov5s; ",
                               "(the text in each image): crnn, crnn-mv3, crnn-vgg."})
    EXPECT_EQ(occurrences(text, workload), 1) << workload << result.output;
  const Registry registry;
  Options options;
  const Program program = describe_train("train", registry, options);
  for (const OptionGroup& group : program.groups) {
    for (const Option& option : group.options) {
      EXPECT_EQ(occurrences(result.output, "\n  --" + option.name + ' ') +
                    occurrences(result.output, "\n  --" + option.name + '\n'),
                1)
          << option.name << result.output;
    }
  }
}

TEST(Foreign, OptionsAreEachThereOnceAndTheirAnswersNameOptionsThatThereAre) {
  const Registry registry;
  Options options;
  const Program program = describe_train("train", registry, options);
  std::set<std::string_view> spellings;
  for (const ForeignOption& foreign : program.foreign) {
    EXPECT_TRUE(spellings.insert(foreign.spelling).second) << foreign.spelling << " is there twice";
    EXPECT_FALSE(foreign.alias.empty() && foreign.answer.empty()) << foreign.spelling;
    EXPECT_FALSE(foreign.is_needless && !foreign.alias.empty()) << foreign.spelling;
    if (!foreign.alias.empty()) {
      EXPECT_NE(find_option(program, foreign.alias), nullptr) << foreign.spelling;
    }
    const std::string answer(foreign.answer);
    const std::regex option("train[^:;]* --([a-z0-9-]+)|use --([a-z0-9-]+)|(?:, | or |and )--([a-z0-9-]+)");
    for (auto it = std::sregex_iterator(answer.begin(), answer.end(), option); it != std::sregex_iterator(); ++it) {
      for (std::size_t i = 1; i < it->size(); ++i) {
        if ((*it)[i].matched) {
          EXPECT_NE(find_option(program, (*it)[i].str()), nullptr) << answer;
        }
      }
    }
  }
}

TEST(Foreign, OptionsAreUnderstoodOrAnswered) {
  EXPECT_EQ(parse("--learning_rate 0.5").options.trainer.schedule.peak, 0.5);
  EXPECT_EQ(parse("--iters 9 --num_workers 2 --use-sync-bn").options.trainer.steps, 9);
  EXPECT_EQ(parse("--Optimizer.base_lr=0.5 --seed 3").options.trainer.schedule.peak, 0.5);
  EXPECT_FALSE(parse("--use-sync-bn no --nesterov").options.trainer.sync_batch_norm);
  EXPECT_EQ(parse("--metrics=-m -o seed=4 epoch=2 --iters 9").options.trainer.epochs, 2);
  EXPECT_EQ(parse("-o Arch.name=resnet20 Optimizer.name=adamw").options.model, "resnet20");
  expect_mistake("-o DataLoader.Train.dataset.name=x", {"DataLoader.Train.dataset.name: use --data PATH"});
  expect_mistake("--auto_resume", {"--auto_resume: use --resume auto"});
  EXPECT_EQ(parse("--pretrain_weights x.safetensors").options.weights, "x.safetensors");
  EXPECT_EQ(parse("--weights= --seed 4").options.weights, "") << "as with YOLOv5, there are none then";
  EXPECT_EQ(parse("--weights= --seed 4").options.trainer.seed, 4U);
  EXPECT_EQ(parse("--weights= --seed 4").options.configuration.find("\nweights ="), std::string::npos);
  expect_mistake("--pretrained", {"--pretrained: use --weights FILE"});
  EXPECT_EQ(parse("--save_dir out").options.save_dir, "out");
  expect_mistake("--batch-size 64", {"use --batch N, the global batch"});
  expect_mistake("--validate", {"--validate: leave it out: train evaluates"});
  expect_mistake("--log_dir log", {"--log_dir: lockstep-launch writes a file for each rank"});
  expect_mistake("-np 2", {"-np: processes are started by mpirun, srun or lockstep-launch"});
  EXPECT_EQ(parse("-o Global.save_model_dir=x").options.save_dir, "x");
}

TEST(Foreign, WhatIsNotNeededOrMeansSomethingElseIsTakenWithANote) {
  const CommandLine line = parse("--do_eval --use_vdl true --save_interval 7 --learning_rate 0.5 --epochs 3");
  EXPECT_EQ(line.options.trainer.epochs, 3);
  EXPECT_EQ(line.options.checkpoints.steps, 7);
  ASSERT_EQ(line.notes.size(), 3U);
  EXPECT_EQ(line.notes[0].rfind("--do_eval is not needed: train evaluates", 0), 0U) << line.notes[0];
  EXPECT_EQ(line.options.tensorboard, in_run_folder);
  EXPECT_EQ(line.notes[1].rfind("--use_vdl is --tensorboard: VisualDL does not read", 0), 0U) << line.notes[1];
  EXPECT_EQ(line.notes[2].rfind("--save_interval is --save-steps: ", 0), 0U) << line.notes[2];
  const data::TemporaryDirectory directory;
  data::write_plain(directory.path() / "run.yml", "use_vdl: true\nsave_interval: 7\n");
  const CommandLine in_file = parse("-c " + (directory.path() / "run.yml").string());
  EXPECT_EQ(in_file.options.checkpoints.steps, 7);
  EXPECT_EQ(in_file.notes.size(), 2U);
  EXPECT_EQ(in_file.options.tensorboard, in_run_folder);
  EXPECT_EQ(parse("--use_vdl False").options.tensorboard, "");
  EXPECT_EQ(parse("--use_vdl true --vdl_log_dir logs").options.tensorboard, in_run_folder);
  EXPECT_EQ(parse("--tb_log_dir logs").options.tensorboard, "logs");
  EXPECT_EQ(parse("-o save_interval=7").options.checkpoints.steps, 7);
  EXPECT_EQ(parse("-o Global.save_interval=7").options.checkpoints.epochs, 7) << "PaddleClas counts epochs";
  EXPECT_EQ(parse("--save-interval 7").options.checkpoints.steps, 0);
  EXPECT_TRUE(parse("--save-interval 7 --save_dir out").notes.empty());
}

TEST(Foreign, TheLauncherGetsWordsUnderOurNamesValuesAndNotes) {
  const data::TemporaryDirectory directory;
  const std::string file = directory.path() / "run.conf";
  data::write_plain(file, "\xef\xbb\xbfthreads: 3 # each\ndata_dir = \"a # b\"\ndataset: mnist\n");
  const std::string asked = "--eval -c " + file + " -o seed=4 epoch=2 --learning_rate 0.5 --weights= --sync-bn";
  std::string answer = parse(asked + " --help=launcher").to_print;
  std::replace(answer.begin(), answer.end(), '\0', '\n');
  EXPECT_EQ(
      answer,
      "lockstep-launch may ask this program for its options\nword --config\nword " + file +
          "\nword --seed\nword 4\nword --epochs\nword 2\nword --lr\nword 0.5\nword --weights=\nword --sync-bn\n"
          "value config=" +
          file +
          "\nvalue data-dir=a # b\nvalue dataset=mnist\nvalue epochs=2\nvalue help=launcher\nvalue lr=0.5\n"
          "value seed=4\nvalue sync-bn=yes\nvalue threads=3\nvalue weights=\n"
          "note --eval is not needed: train evaluates on the test set by itself; --eval-interval never switches that "
          "off\nnote epoch is --epochs\nnote --learning_rate is --lr\n");
  expect_mistake("--help=launcher --accumulate 65 --batch 64", {"--accumulate 65 cuts a --batch"});
}

/// An operator of a program, which GPUs have no kernel for.
class OwnOperator final : public ops::CustomOperator {
 public:
  [[nodiscard]] ops::Signature signature(std::span<const ops::Shape> inputs) const override {
    return {.output = inputs[0]};
  }
  [[nodiscard]] std::string text() const override { return "own operator"; }
  [[nodiscard]] ops::KernelPtr make(ops::Formats /*inputs*/) const override { return nullptr; }
};

TEST(DeviceOfAModel, IsTheCpuIfAnOperatorHasNoKernelForGpus) {
  nn::Graph graph("own");
  graph.input({"images", {1, 2, 2}});
  graph.add("mine", nn::Custom{std::make_shared<OwnOperator>()});
  DeviceChoice gpu;
  gpu.device = Device::cuda;
  Options options;
  options.device = "auto";
  const DeviceChoice chosen = device_for(graph, options, gpu);
  EXPECT_EQ(chosen.device, Device::cpu);
  EXPECT_EQ(chosen.why, "node 'mine' is 'own operator', which has no kernel for GPUs");
  options.device = "cuda";
  expect_error([&] { (void)device_for(graph, options, gpu); }, ErrorCode::unsupported,
               {"--device cuda: the run cannot compute on GPUs: node 'mine' is 'own operator'", "--device cpu"});
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
