// SPDX-License-Identifier: Apache-2.0
// Runs train on emulated GPUs: it trains as it does on CPUs with the reference operators, and the bits of a run depend
// on nothing but its options.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/train/box_folder.hpp"
#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

class TrainOnGpus : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Runs train without evaluations. @return its output
  std::string train(int ranks, const std::string& arguments, const std::string& environment = "") const {
    const bool saves = arguments.find("--save-dir") != std::string::npos;
    const ProgramResult result =
        run_program(environment + " " + LOCKSTEP_MPIEXEC + " -n " + std::to_string(ranks) + " " + LOCKSTEP_TRAIN +
                    " --eval-interval never --warmup 0 " + arguments + (saves ? "" : " --save-dir none") + " 2>&1");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  }
  /// Returns the losses of a run's steps.
  std::vector<double> losses(int ranks, const std::string& arguments, const std::string& environment = "") const {
    const std::string metrics = path("metrics.jsonl");
    std::filesystem::remove(metrics);
    train(ranks, arguments + " --log-every 1 --metrics " + metrics, environment);
    std::vector<double> found;
    std::ifstream file(metrics);
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == "step") found.push_back(event["loss"]);
    }
    return found;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-train-on-gpus-" + std::to_string(getpid()));
};

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << "step " << i + 1;
}

/// Lets convolutions sum the statistics of the batch norms behind them, which otherwise only a measurement chooses.
const std::string sums_in_convolutions = "EMULATED_GPU_STATISTICS=epilogue";

/// How long a run takes. The large ones are for mpi-scripts/check/emulated-gpu.sh: other models have their
/// operators.
enum class Length { usual, minute, large };

struct Training {
  std::string name;
  std::string arguments;
  int ranks;
  std::string environment{};
  Length length = Length::usual;
  friend void PrintTo(const Training& run, std::ostream* out) { *out << run.name; }
};

class LossesOnGpus : public TrainOnGpus, public testing::WithParamInterface<Training> {};

/// On GPUs the first step is submitted as it is, the next one of each slot is captured, and the two after these launch
/// the graphs again. The loss of the sixth depends on all of them.
constexpr const char* all_kinds_of_steps = " --steps 6";

TEST_P(LossesOnGpus, AreThoseOfTheReferenceOnCpus) {
  const Training& run = GetParam();
  const std::string arguments = run.arguments + all_kinds_of_steps;
  const std::vector<double> on_gpus = losses(run.ranks, arguments + " --device cuda", run.environment);
  EXPECT_EQ(on_gpus.size(), 6U);
  static std::map<std::string, std::vector<double>> references;
  std::vector<double>& reference = references[arguments];
  if (reference.empty()) reference = losses(2, arguments + " --device cpu --ops reference");
  expect_near(on_gpus, reference);
}

const std::vector<Training>& all_runs() {
  static const std::vector<Training> runs = {
      // Without batch norm, the losses do not depend on the number of ranks: all are compared with those of two.
      {"lenet1", "--batch 8 --lr 0.05", 1},
      {"lenet2", "--batch 8 --lr 0.05", 2},
      {"lenet4", "--batch 8 --lr 0.05", 4},
      {"lenet8", "--batch 8 --lr 0.05", 8},
      // Batch norm over a few samples makes much of small differences, so the weights move little: by the larger rates
      // of a user, the two libraries for CPUs differ by more than 1e-4 in these steps, too.
      {"resnet20", "--model resnet20 --dataset synthetic-cifar --batch 4 --lr 0.0003", 2, sums_in_convolutions},
      {"unet", "--model unet --dataset synthetic-masks --batch 2 --lr 0.003", 2},
      {"detector", "--model detector --dataset synthetic-boxes --batch 2 --lr 0.003", 2},
      {"crnn", "--model crnn --dataset synthetic-words --batch 4 --lr 0.003", 2},
      {"resnet18", "--model resnet18 --dataset synthetic-cifar --batch 4 --lr 0.00003", 2, "", Length::large},
      {"mobilenet_v2", "--model mobilenet-v2 --dataset synthetic-cifar --batch 4 --lr 1e-6", 2, "", Length::minute}};
  return runs;
}
std::vector<Training> runs(Length length) {
  std::vector<Training> chosen;
  for (const Training& run : all_runs())
    if (run.length == length) chosen.push_back(run);
  return chosen;
}
const auto name_of = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Short, LossesOnGpus, testing::ValuesIn(runs(Length::usual)), name_of);
INSTANTIATE_TEST_SUITE_P(Long, LossesOnGpus, testing::ValuesIn(runs(Length::minute)), name_of);
INSTANTIATE_TEST_SUITE_P(Large, LossesOnGpus, testing::ValuesIn(runs(Length::large)), name_of);

class LongTrainOnGpus : public TrainOnGpus {};

TEST_F(LongTrainOnGpus, HasTheLossesOfTheReferenceOnCpusForUsersBoxes) {
  const train::BoxFolder boxes;
  const std::string run =
      "--data " + boxes.path() + " --model yolov5n --img 64 --batch 4 --nominal-batch off --lr 0.001 --steps 4";
  expect_near(losses(2, run + " --device cuda"), losses(2, run + " --device cpu --ops reference"));
}

TEST_F(TrainOnGpus, SynchronizedBatchNormIsThatOfOneRank) {
  const std::string run =
      "--model resnet20 --dataset synthetic-cifar --steps 2 --batch 6 --lr 0.0001 --device cuda --sync-bn";
  expect_near(losses(3, run, sums_in_convolutions), losses(1, run));
}

std::string checksum(const std::string& output) {
  const std::size_t at = output.find("weights sha256 ");
  return at == std::string::npos ? "no checksum in\n" + output : output.substr(at, 79);
}

/// Batch norm takes its statistics of a shard, so that the bits of a run depend on its shards, but not on its ranks.
TEST_F(TrainOnGpus, WithShardsBitsDependOnNoNumberOfGpus) {
  const std::string run =
      "--model resnet20 --dataset synthetic-cifar --lr-schedule constant --batch 4 --shards 4 --clip-norm 0.5 --device "
      "cuda --steps ";
  const std::string one = checksum(train(1, run + "3"));
  EXPECT_TRUE(one.starts_with("weights")) << one;
  EXPECT_EQ(checksum(train(3, run + "3")), one);
  EXPECT_EQ(checksum(train(2, run + "3 --zero --without-pass capture")), one);
  train(2, run + "2 --zero --save-dir " + path("run"));
  EXPECT_EQ(checksum(train(3, run + "3 --resume " + path("run"))), one);
  const std::string lenet = "--model lenet --lr-schedule constant --batch 8 --shards 8 --device cuda --steps 2";
  const std::string alone = checksum(train(1, lenet));
  EXPECT_TRUE(alone.starts_with("weights")) << alone;
  EXPECT_EQ(checksum(train(5, lenet)), alone);
  EXPECT_EQ(checksum(train(8, lenet)), alone);
}

TEST_F(TrainOnGpus, WithZeroEachRankHasItsPartOfTheOptimizer) {
  const std::string run = "--batch 9 --lr 0.05 --optimizer adamw --clip-norm 0.5 --device cuda --steps ";
  expect_near(losses(3, run + "4 --zero"), losses(3, run + "4"));
  EXPECT_NE(train(3, run + "1 --zero").find("1.1 MiB of optimizer state"), std::string::npos) << "of 3.2";
}

TEST_F(TrainOnGpus, BitsDependOnNeitherCaptureNorSchedule) {
  const std::string run = "--model resnet20 --dataset synthetic-cifar --steps 5 --batch 2 --device cuda";
  const std::string sums = sums_in_convolutions + " EMULATED_GPU_ORDER=";
  const std::string first = checksum(train(2, run, sums + "late"));
  EXPECT_TRUE(first.starts_with("weights")) << first;
  EXPECT_EQ(checksum(train(2, run, sums + "late")), first);
  EXPECT_EQ(checksum(train(2, run, sums + "early")), first);
  EXPECT_EQ(checksum(train(2, run, sums + "mixed")), first);
  EXPECT_EQ(checksum(train(2, run + " --without-pass capture", sums + "mixed")), first);
}

/// The bits of the weights tell which way was taken.
TEST_F(TrainOnGpus, StatisticsComeFromConvolutionsOnlyWhereTheseAreChosen) {
  const std::string run = "--model resnet20 --dataset synthetic-cifar --steps 1 --batch 2 --device cuda";
  const std::string summed = checksum(train(1, run, sums_in_convolutions));
  EXPECT_NE(summed, checksum(train(1, run)));
}

TEST_F(TrainOnGpus, ARunGoesOnOnTheOtherDevice) {
  const std::string run = "--steps 10 --batch 8 --lr 0.02 --save-steps 5 --keep 3 --save-dir ";
  const std::string devices[] = {"cuda", "cpu --ops reference"};
  std::vector<double> whole[2];
  for (int i = 0; i < 2; ++i) {
    whole[i] = losses(2, run + path(std::to_string(i)) + " --device " + devices[i]);
    ASSERT_EQ(whole[i].size(), 10U);
  }
  for (int i = 0; i < 2; ++i) {
    const std::vector<double> rest =
        losses(2, run + path("rest" + std::to_string(i)) + " --device " + devices[1 - i] + " --resume " +
                      path(std::to_string(i)) + "/checkpoints/step-00000005");
    expect_near(rest, {whole[1].begin() + 5, whole[1].end()});
  }
}

/// The time has no meaning here, but every candidate is computed, except one that the library refuses.
TEST_F(TrainOnGpus, KernelsAreMeasuredOnTheGpu) {
  const std::string run = "--steps 2 --batch 2 --device cuda --kernels " + path("kernels");
  const std::string first = in_one_line(train(1, run));
  EXPECT_NE(first.find("measured"), std::string::npos) << first;
  std::ostringstream file;
  file << std::ifstream(path("kernels")).rdbuf();
  EXPECT_NE(file.str().find(" cuda loops"), std::string::npos) << file.str();
  EXPECT_EQ(file.str().find("refused"), std::string::npos) << file.str();
}

TEST_F(TrainOnGpus, AStepIsExplainedAndTraced) {
  const std::string output = train(2, "--steps 2 --batch 2 --device cuda --explain-step --trace " + path("trace"));
  for (const char* row : {"forward conv1", "backward fc1", "update"})
    EXPECT_NE(output.find(row), std::string::npos) << row << '\n' << output;
  std::ifstream file(path("trace"));
  const nlohmann::json trace = nlohmann::json::parse(file);
  int spans = 0;
  for (const nlohmann::json& event : trace.is_array() ? trace : trace["traceEvents"])
    spans += event.value("name", "") == "forward conv1" ? 1 : 0;
  EXPECT_EQ(spans, 2 * 2) << "two steps of two ranks";
}

TEST_F(TrainOnGpus, DevicesThatCannotBeHadAreNamed) {
  struct Refusal {
    std::string launch;  ///< what follows mpirun
    std::vector<std::string> parts;
  };
  const std::string train = std::string(LOCKSTEP_TRAIN) + " --save-dir none --device ";
  const std::string first = "env CUDA_VISIBLE_DEVICES=0 " + train + "cuda";
  const std::string none = "env CUDA_VISIBLE_DEVICES= " + train + "cuda";
  for (const Refusal& refusal : std::vector<Refusal>{
           {"-n 2 " + train + "0,9", {"rank ", "the list of GPUs 0,9 has 9, and host ", " shows 8 GPUs"}},
           {"-n 2 " + train + "3,3", {"the list of GPUs 3,3 has 3 twice: list each GPU once"}},
           {"-n 2 " + train + "4", {"the list of GPUs 4 has 1 entry, and host ", " has 2 ranks"}},
           {"-n 9 " + train + "cuda", {"has 9 ranks, which see 8 GPUs", "Start no more than 8"}},
           {"-n 1 " + first + " : -n 1 " + none, {"rank 1 on host ", "no CUDA-capable device", "--device cpu"}}}) {
    const ProgramResult result = run_program(std::string(LOCKSTEP_MPIEXEC) + " " + refusal.launch + " 2>&1");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    for (const std::string& part : refusal.parts)
      EXPECT_NE(result.output.find(part), std::string::npos) << result.output;
  }
}

TEST_F(TrainOnGpus, AutoSaysWhyItComputesOnCpus) {
  EXPECT_NE(train(1, "--model lenet --compress bf16 --batch 8 --steps 1").find("on CPUs: --compress is for CPUs"),
            std::string::npos);
}

/// Returns the number behind a text.
int number_after(const std::string& output, const std::string& text) {
  const std::size_t at = output.find(text);
  EXPECT_NE(at, std::string::npos) << output;
  return at == std::string::npos ? 0 : std::stoi(output.substr(at + text.size()));
}

TEST_F(TrainOnGpus, MemoryIsReportedAndALargerBatchThanFitsIsRefusedWithTheLargest) {
  nlohmann::json machine = nlohmann::json::parse(std::ifstream(std::getenv("EMULATED_GPU_MACHINE")));
  for (nlohmann::json& gpu : machine["gpus"]) gpu["memory_mib"] = 12;
  std::ofstream(path("small.json")) << machine;
  const auto run = [&](int batch) {
    return run_program("EMULATED_GPU_MACHINE=" + path("small.json") + " " + LOCKSTEP_MPIEXEC + " -n 2 " +
                       LOCKSTEP_TRAIN +
                       " --device cuda --model lenet --steps 1 --eval-interval never --save-dir none --batch " +
                       std::to_string(batch) + " 2>&1");
  };
  const ProgramResult refused = run(2000);
  EXPECT_EQ(refused.exit_code, 1) << refused.output;
  EXPECT_NE(refused.output.find("out of memory: the GPU has no room for"), std::string::npos) << refused.output;
  EXPECT_NE(refused.output.find("of its 12.0 MiB"), std::string::npos) << refused.output;
  const int most = number_after(refused.output, "fit, a batch of ");
  const ProgramResult fits = run(most);
  EXPECT_EQ(fits.exit_code, 0) << fits.output;
  EXPECT_NE(fits.output.find("GPU memory: "), std::string::npos) << fits.output;
  EXPECT_EQ(run(most + 2).exit_code, 1) << most;
}

}  // namespace
}  // namespace lockstep::testing_support
