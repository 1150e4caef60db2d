// SPDX-License-Identifier: Apache-2.0
// Runs train on emulated GPUs: it trains as it does on CPUs with the reference operators, and the bits of a run depend
// on nothing but its options.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "support/background_job.hpp"
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

struct Training {
  std::string name;
  std::string arguments;
  int ranks;
  std::string environment{};
  bool is_long = false;  ///< takes minutes, so that mpi-scripts/emulated-gpu.sh runs it
  friend void PrintTo(const Training& run, std::ostream* out) { *out << run.name; }
};

class LossesOnGpus : public TrainOnGpus, public testing::WithParamInterface<Training> {};

TEST_P(LossesOnGpus, AreThoseOfTheReferenceOnCpus) {
  const Training& run = GetParam();
  const std::vector<double> on_gpus = losses(run.ranks, run.arguments + " --device cuda", run.environment);
  EXPECT_EQ(on_gpus.size(), 10U);
  expect_near(on_gpus, losses(run.ranks, run.arguments + " --device cpu --ops reference"));
}

const std::vector<Training>& all_runs() {
  static const std::vector<Training> runs = {
      {"lenet1", "--steps 10 --batch 8 --lr 0.02", 1},
      {"lenet2", "--steps 10 --batch 8 --lr 0.02", 2},
      {"lenet4", "--steps 10 --batch 8 --lr 0.02", 4},
      {"lenet8", "--steps 10 --batch 8 --lr 0.02", 8},
      // Batch norm over a few samples makes much of small differences, so the weights move little.
      {"resnet20", "--model resnet20 --dataset synthetic-cifar --steps 10 --batch 4 --lr 0.0001", 2,
       sums_in_convolutions},
      {"unet", "--model unet --dataset synthetic-masks --steps 10 --batch 2 --lr 0.001", 2},
      {"detector", "--model detector --dataset synthetic-boxes --steps 10 --batch 2 --lr 0.001", 2},
      {"resnet18", "--model resnet18 --dataset synthetic-cifar --steps 10 --batch 4 --lr 0.0001", 2, "", true},
      {"mobilenet_v2", "--model mobilenet-v2 --dataset synthetic-cifar --steps 10 --batch 4 --lr 0.00001", 2, "",
       true}};
  return runs;
}
std::vector<Training> runs(bool are_long) {
  std::vector<Training> chosen;
  for (const Training& run : all_runs())
    if (run.is_long == are_long) chosen.push_back(run);
  return chosen;
}
const auto name_of = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Short, LossesOnGpus, testing::ValuesIn(runs(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Long, LossesOnGpus, testing::ValuesIn(runs(true)), name_of);

TEST_F(TrainOnGpus, SynchronizedBatchNormIsThatOfOneRank) {
  const std::string run =
      "--model resnet20 --dataset synthetic-cifar --steps 4 --batch 6 --lr 0.0001 --device cuda --sync-bn";
  expect_near(losses(3, run, sums_in_convolutions), losses(1, run));
}

std::string checksum(const std::string& output) {
  const std::size_t at = output.find("weights sha256 ");
  return at == std::string::npos ? "no checksum in\n" + output : output.substr(at, 79);
}

TEST_F(TrainOnGpus, BitsDependOnNeitherCaptureNorSchedule) {
  const std::string run = "--model resnet20 --dataset synthetic-cifar --steps 5 --batch 4 --device cuda";
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

/// The rank of a process that mpiexec has started; −1 if it is gone.
int rank_of(pid_t pid) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(pid) + "/environ").rdbuf();
  for (const std::string name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
    if (const std::size_t at = text.str().find(name); at != std::string::npos)
      return std::atoi(text.str().c_str() + at + name.size());
  return -1;
}

/// A graph that was launched has no deadlines, but the ranks tell each other that they wait for it.
TEST_F(TrainOnGpus, ARankThatStopsIsNamed) {
  using std::chrono::seconds;
  constexpr int timeout = 5;
  const std::string output = path("output");
  const std::string metrics = path("metrics.jsonl");
  BackgroundJob job(std::string(LOCKSTEP_MPIEXEC) + " -n 2 " + LOCKSTEP_TRAIN +
                        " --device cuda --eval-interval never --save-dir none --batch 2 --log-every 1 --timeout " +
                        std::to_string(timeout) + " --metrics " + metrics,
                    output);
  const auto contents = [](const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  ASSERT_TRUE(becomes_true(seconds(60), [&] { return occurrences(contents(metrics), "\"step\"") > 6; }))
      << contents(output);
  pid_t culprit = 0;
  for (const pid_t pid : processes(LOCKSTEP_TRAIN, metrics))
    if (rank_of(pid) == 1) culprit = pid;
  ASSERT_GT(culprit, 0);
  const auto begin = std::chrono::steady_clock::now();
  kill(culprit, SIGSTOP);
  const auto is_named = [&] { return occurrences(contents(output), "rank 0 on ") > 0; };
  EXPECT_TRUE(becomes_true(seconds(60), is_named)) << contents(output);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 1.2 * timeout + 2) << contents(output);
  kill(culprit, SIGKILL);
  const std::string words = in_one_line(contents(output));
  EXPECT_TRUE(words.find("(rank 1) on this host is stopped") != std::string::npos ||
              words.find("peer rank 1") != std::string::npos)
      << words;
}

}  // namespace
}  // namespace lockstep::testing_support
