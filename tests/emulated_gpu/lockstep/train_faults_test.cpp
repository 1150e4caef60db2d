// SPDX-License-Identifier: Apache-2.0
// A call of CUDA or NCCL fails in train, or a rank is stopped or killed: every rank ends in time, and the culprit is
// named.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/background_job.hpp"
#include "support/run_program.hpp"
#include "support/verdict.hpp"

namespace lockstep::testing_support {
namespace {

constexpr int timeout_seconds = 5;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string contents(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class FaultsOfTrain : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// The command for a short training whose steps are cheap.
  static std::string train(const std::string& arguments) {
    return std::string(LOCKSTEP_TRAIN) +
           " --device cuda --eval-interval never --save-dir none --warmup 0 --batch 2 --log-every 1"
           " --freeze conv1,conv2,fc1,fc2 --comm-timeout " +
           std::to_string(timeout_seconds) + ' ' + arguments;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-faults-of-train-" + std::to_string(getpid()));
};

/// A call that is to fail.
struct Fault {
  std::string call;
  int number = 0;  ///< of the process's calls of this name
  int phase = 0;   ///< 0: before the first kernel; 1: in the step as it is; 2, 4: in a capture; 3, 5: beside graphs

  [[nodiscard]] bool is_of_nccl() const { return call.starts_with("nccl"); }
  /// Whether the number of calls depends on how long something takes.
  [[nodiscard]] bool is_poll() const {
    return call.ends_with("Query") || call == "cudaSetDevice" || call == "ncclCommGetAsyncError";
  }
  [[nodiscard]] std::string error() const {
    if (is_of_nccl()) return "ncclSystemError";
    return call.ends_with("Query") || call.ends_with("Synchronize") ? "cudaErrorLaunchFailure" : "cudaErrorUnknown";
  }
  [[nodiscard]] std::string text() const { return call + ":" + std::to_string(number) + ":" + error(); }
};

/// Returns the first call of each name in each phase of a run. Calls that only free something are left out: a run goes
/// on without them.
std::vector<Fault> faults_in(const std::string& file) {
  std::vector<std::string> calls;
  std::ifstream lines(file);
  for (std::string call; std::getline(lines, call);) calls.push_back(call);
  const auto last = std::find(calls.rbegin(), calls.rend(), "cudaGraphLaunch").base();
  std::vector<Fault> faults;
  std::map<std::string, int> numbers;
  std::set<std::pair<std::string, int>> met;
  int phase = 0;
  for (auto call = calls.begin(); call != last; ++call) {
    if ((*call == "cudaLaunchKernel" && phase == 0) || *call == "cudaStreamBeginCapture") ++phase;
    const int number = ++numbers[*call];
    const bool frees = call->find("Free") != std::string::npos || call->find("Destroy") != std::string::npos;
    const bool is_call = call->find(' ') == std::string::npos;
    if (is_call && !frees && met.emplace(*call, phase).second) faults.push_back({*call, number, phase});
    if (*call == "cudaStreamEndCapture") ++phase;
  }
  return faults;
}

/// Every seed tries some of the faults, on either rank; as many successive seeds as `seeds` try all of them.
TEST_F(FaultsOfTrain, AreNamedByTheRankThatMeetsThem) {
  constexpr unsigned seeds = 10;
  const std::string command = train("--steps 6 2>&1");
  const auto run = [&](unsigned rank, const std::string& environment) {
    const std::string both[] = {(rank == 0 ? "env " + environment + ' ' : "") + command.substr(0, command.size() - 5),
                                (rank == 1 ? "env " + environment + ' ' : "") + command};
    return run_program(std::string("timeout 60 ") + LOCKSTEP_MPIEXEC + " -n 1 " + both[0] + " : -n 1 " + both[1]);
  };
  const auto begin = std::chrono::steady_clock::now();
  const ProgramResult good = run(1, "EMULATED_GPU_CALLS=" + path("calls"));
  const double seconds = seconds_since(begin);
  ASSERT_EQ(good.exit_code, 0) << good.output;
  const std::vector<Fault> faults = faults_in(path("calls"));
  ASSERT_GT(faults.size(), 50U);
  ASSERT_EQ(faults.back().phase, 5);
  for (std::size_t i = number_from("EMULATED_GPU_SEED", 0) % seeds; i < faults.size(); i += seeds) {
    const Fault& fault = faults[i];
    // Rank 0 alone makes NCCL's id.
    const unsigned rank = fault.call == "ncclGetUniqueId" ? 0 : i / seeds % 2;
    SCOPED_TRACE("rank " + std::to_string(rank) + ": EMULATED_GPU_FAULTS=" + fault.text() + ", phase " +
                 std::to_string(fault.phase));
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result = run(rank, "EMULATED_GPU_FAULTS=" + fault.text());
    EXPECT_LT(seconds_since(start), 2 * seconds + 1.2 * timeout_seconds) << result.output;
    if (result.exit_code == 0 && fault.is_poll()) continue;  // there were not so many calls this time
    const std::string words = in_one_line(result.output);
    // What ranks compare at the start is only information, and the run goes on with a warning.
    const bool is_information = fault.phase == 0 && words.find("warning: ranks differ") != std::string::npos;
    EXPECT_TRUE(result.exit_code != 0 || is_information) << result.output;
    EXPECT_NE(words.find("rank " + std::to_string(rank) + " on "), std::string::npos) << result.output;
    EXPECT_NE(words.find(fault.is_of_nccl() ? "system error" : fault.error()), std::string::npos) << result.output;
    if (fault.phase > 0 && !fault.is_poll()) {
      EXPECT_NE(words.find("(step "), std::string::npos) << result.output;
    }
  }
}

class SignalToARank : public FaultsOfTrain, public testing::WithParamInterface<int> {};

/// A graph that was launched has no deadlines, but the ranks tell each other that they wait for it.
TEST_P(SignalToARank, IsNamedDuringReplay) {
  using std::chrono::seconds;
  const std::string flag = GetParam() == SIGKILL ? recovery_flag(LOCKSTEP_MPIEXEC) : "";
  if (GetParam() == SIGKILL && flag.empty()) LOCKSTEP_SKIP(mpi) << LOCKSTEP_MPIEXEC << " lets no rank outlive another";
  const std::string output = path("output");
  const std::string metrics = path("metrics.jsonl");
  BackgroundJob job(std::string(LOCKSTEP_MPIEXEC) + flag + " -n 2 " + train("--metrics " + metrics), output);
  ASSERT_TRUE(becomes_true(seconds(60), [&] { return occurrences(contents(metrics), "\"step\"") > 6; }))
      << contents(output);
  pid_t culprit = 0;
  for (const pid_t pid : processes(LOCKSTEP_TRAIN, metrics))
    if (rank_of(pid) == 1) culprit = pid;
  ASSERT_GT(culprit, 0);
  const auto begin = std::chrono::steady_clock::now();
  kill(culprit, GetParam());
  const auto is_named = [&] { return occurrences(contents(output), "rank 0 on ") > 0; };
  EXPECT_TRUE(becomes_true(seconds(60), is_named)) << contents(output);
  EXPECT_LT(seconds_since(begin), 1.2 * timeout_seconds + 2) << contents(output);
  kill(culprit, SIGKILL);
  const std::string words = in_one_line(contents(output));
  EXPECT_TRUE(words.find("(rank 1) on this host ") != std::string::npos ||
              words.find("peer rank 1") != std::string::npos)
      << words;
  EXPECT_NE(words.find("step ", words.find("rank 0 on ")), std::string::npos) << words;
  EXPECT_TRUE(becomes_true(seconds(10), [&] { return processes(LOCKSTEP_TRAIN, metrics).empty(); }));
}

INSTANTIATE_TEST_SUITE_P(, SignalToARank, testing::Values(SIGSTOP, SIGKILL),
                         [](const auto& signal) { return signal.param == SIGSTOP ? "Stopped" : "Killed"; });

}  // namespace
}  // namespace lockstep::testing_support
