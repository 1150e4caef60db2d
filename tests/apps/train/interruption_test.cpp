// SPDX-License-Identifier: Apache-2.0
// A run that is cut short. mpiexec is told to let the other ranks live when one dies, so that what ends them is train.
#include <csignal>
#include <optional>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "support/background_job.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

using std::chrono::seconds;
using testing_support::BackgroundJob;
using testing_support::becomes_true;
using testing_support::processes;

/// Ranks that would train for hours; the metrics file's name marks their processes.
class Interruption : public testing::Test {
 protected:
  /// @param launcher  and its arguments, or nothing
  void start(const std::string& launcher, std::size_t ranks) {
    job_.emplace(launcher + LOCKSTEP_TRAIN + digits_.arguments() +
                     " --batch 12 --epochs 10000000 --log-every 1 --metrics " + metrics_,
                 digits_.file("output"));
    ASSERT_TRUE(becomes_true(seconds(60), [this] { return is_training() || job_->has_ended(); }));
    ASSERT_FALSE(job_->has_ended()) << output();
    ASSERT_EQ(alive().size(), ranks);
  }
  void start_three_to_be_killed() {
    const std::string flag = testing_support::recovery_flag(LOCKSTEP_MPIEXEC);
    if (flag.empty()) LOCKSTEP_SKIP(mpi) << LOCKSTEP_MPIEXEC << " lets no rank outlive another";
    start(LOCKSTEP_MPIEXEC + flag + " -np 3 ", 3);
  }
  /// Kills a rank; the others must say which one has gone, end, and be no more than they were.
  void expect_to_be_named(int rank) {
    const std::vector<pid_t> ranks = alive();
    kill(ranks.at(static_cast<std::size_t>(rank)), SIGKILL);
    EXPECT_TRUE(becomes_true(seconds(60), [this] { return alive().empty(); })) << output();
    EXPECT_TRUE(becomes_true(seconds(60), [this] { return job_->has_ended(); })) << output();
    const std::string gone = "rank " + std::to_string(rank) + ", a process on this host, has ended";
    EXPECT_GE(occurrences(output(), gone), 1) << output();
    EXPECT_EQ(occurrences(output(), "train: rank " + std::to_string(rank) + ' '), 0) << output();
  }

  /// The processes of train, by rank as they were started.
  [[nodiscard]] std::vector<pid_t> alive() const {
    std::vector<pid_t> pids = processes(LOCKSTEP_TRAIN, metrics_);
    std::sort(pids.begin(), pids.end());
    return pids;
  }
  [[nodiscard]] std::string output() const { return data::read_all(digits_.file("output")); }
  [[nodiscard]] std::filesystem::path metrics() const { return metrics_; }
  BackgroundJob& job() { return *job_; }

 private:
  [[nodiscard]] bool is_training() const { return occurrences(data::read_all(metrics_), R"("event":"step")") > 1; }

  SmallDigits digits_;
  std::string metrics_ = digits_.path("metrics.json");
  std::optional<BackgroundJob> job_;
};

TEST_F(Interruption, TheOthersNameARankThatWasKilledAndEnd) {
  start_three_to_be_killed();
  if (!HasFatalFailure() && !IsSkipped()) expect_to_be_named(2);
}

TEST_F(Interruption, TheOthersNameRankZeroToo) {
  start_three_to_be_killed();
  if (!HasFatalFailure() && !IsSkipped()) expect_to_be_named(0);
}

TEST_F(Interruption, CtrlCEndsItAtOnceAndLeavesWholeLinesOfMetrics) {
  start("", 1);
  if (HasFatalFailure()) return;
  job().interrupt();
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  EXPECT_EQ(job().exit_code(), 128 + SIGINT);
  EXPECT_GT(read_metrics(metrics()).size(), 2U);  // each line is parsed
  EXPECT_TRUE(data::read_all(metrics()).ends_with('\n'));
}

}  // namespace
}  // namespace lockstep::train
