// SPDX-License-Identifier: Apache-2.0
// Tests a run that is interrupted. mpiexec is told to keep the other ranks alive when one dies, so that train itself
// ends them.
#include <csignal>
#include <optional>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/background_job.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

using std::chrono::seconds;
using testing_support::BackgroundJob;
using testing_support::becomes_true;
using testing_support::processes;

/// Ranks that would train for hours; the name of the metrics file marks their processes.
class Interruption : public testing::Test {
 protected:
  /// @param launcher  the launcher and its arguments, or nothing
  /// @param data  options that choose the data; none: a few images, so that an epoch takes milliseconds
  void start(const std::string& launcher, std::size_t ranks, const std::string& data = {}) {
    job_.emplace(launcher + LOCKSTEP_TRAIN + (data.empty() ? digits_.arguments() : data) +
                     " --batch 12 --epochs 10000000 --log-every 1 --save-dir none --metrics " + metrics_,
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
  /// Kills a rank. The others must name it and end, and no process may remain.
  void expect_to_be_named(int rank) {
    const std::vector<pid_t> ranks = alive();
    kill(ranks.at(static_cast<std::size_t>(rank)), SIGKILL);
    EXPECT_TRUE(becomes_true(seconds(60), [this] { return alive().empty(); })) << output();
    EXPECT_TRUE(becomes_true(seconds(60), [this] { return job_->has_ended(); })) << output();
    const std::string gone = "rank " + std::to_string(rank) + ", a process on this host, has ended";
    EXPECT_GE(occurrences(output(), gone), 1) << output();
    EXPECT_EQ(occurrences(output(), "train: rank " + std::to_string(rank) + ' '), 0) << output();
  }

  /// Returns the processes of train, by rank.
  [[nodiscard]] std::vector<pid_t> alive() const { return processes(LOCKSTEP_TRAIN, metrics_); }
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

/// Expects a summary and the end event of a run that was stopped.
void expect_stopped(const std::string& output, const std::filesystem::path& metrics, const std::string& signal) {
  EXPECT_EQ(occurrences(output, "\nstopped by " + signal + " after "), 1) << output;
  EXPECT_EQ(occurrences(output, " waiting for gradients"), 1) << output;
  EXPECT_EQ(occurrences(output, "lockstep:"), 0) << "everything was closed\n" << output;
  EXPECT_TRUE(data::read_all(metrics).ends_with('\n'));
  const auto end = read_metrics(metrics).back();  // reading parses each line
  EXPECT_EQ(end.at("event"), "end");
  EXPECT_EQ(end.at("outcome"), "stopped");
  EXPECT_EQ(end.at("signal"), signal);
  EXPECT_GT(end.at("steps"), 0);
  EXPECT_EQ(end.at("weights_sha256").get<std::string>().size(), 64U);
}

TEST_F(Interruption, SignalsEndARunAfterAStepWithASummary) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
    start("", 1);
    if (HasFatalFailure()) return;
    job().send(signal);
    EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
    EXPECT_EQ(job().exit_code(), exit_stopped) << output();
    expect_stopped(output(), metrics(), name);
    std::filesystem::remove(metrics());
  }
}

/// nohup ignores SIGHUP, and shells ignore SIGINT for commands in the background of a script.
TEST_F(Interruption, AnIgnoredSignalStaysIgnored) {
  start("env UCX_DEBUG_SIGNO=0 nohup ", 1);  // UCX, which some MPI libraries load, would take SIGHUP for itself
  if (HasFatalFailure()) return;
  job().send(SIGHUP);
  job().send(SIGTERM);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  EXPECT_EQ(job().exit_code(), exit_stopped) << output();
  expect_stopped(output(), metrics(), "SIGTERM");
}

/// One rank of three gets the signal; all end after the same step, in good order.
TEST_F(Interruption, ASignalToOneRankStopsAll) {
  start(std::string(LOCKSTEP_MPIEXEC) + " -np 3 ", 3);
  if (HasFatalFailure()) return;
  kill(alive().at(1), SIGTERM);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  EXPECT_EQ(job().exit_code(), exit_stopped) << output();
  expect_stopped(output(), metrics(), "SIGTERM");
}

TEST_F(Interruption, ARequestToSaveWhereNothingIsSavedSaysSoAndTheRunGoesOn) {
  start(std::string(LOCKSTEP_MPIEXEC) + " -np 2 ", 2);
  if (HasFatalFailure()) return;
  kill(alive().at(1), SIGUSR1);
  EXPECT_TRUE(becomes_true(seconds(60), [this] {
    return occurrences(output(), "this run saves no checkpoints; training goes on") == 1;
  })) << output();
  kill(alive().at(0), SIGINT);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  expect_stopped(output(), metrics(), "SIGINT");
}

/// Open MPI's launcher passes the signal on and waits, however long a save may take. MPICH's ends at it.
TEST_F(Interruption, SigUsr2ToTheLauncherStopsTheRun) {
  if (!testing_support::is_open_mpi(LOCKSTEP_MPIEXEC)) LOCKSTEP_SKIP(mpi) << "not every launcher passes signals on";
  start(std::string(LOCKSTEP_MPIEXEC) + " -np 2 ", 2);
  if (HasFatalFailure()) return;
  job().send(SIGUSR2);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  EXPECT_EQ(job().exit_code(), exit_stopped) << output();
  expect_stopped(output(), metrics(), "SIGUSR2");
}

/// Open MPI sends the ranks SIGTERM after the time-out, kills them after another, and returns 1 in any case. Meanwhile
/// it forwards no output, so a rank that prints more than a terminal buffers must wait.
TEST_F(Interruption, CtrlCOnTheLauncherStillGetsASummary) {
  if (!testing_support::is_open_mpi(LOCKSTEP_MPIEXEC) || LOCKSTEP_ULFM)
    LOCKSTEP_SKIP(mpi) << "each launcher treats Ctrl-C in its own way; that of Open MPI 5 kills ranks after 0.25 s";
  start(std::string(LOCKSTEP_MPIEXEC) + " --mca odls_base_sigkill_timeout 3 -np 2 ", 2, " --dataset synthetic-digits");
  if (HasFatalFailure()) return;
  job().send(SIGINT);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
  expect_stopped(output(), metrics(), "SIGTERM");
  EXPECT_TRUE(becomes_true(seconds(10), [this] { return alive().empty(); }));
}

/// A signal must not be handled on a thread that runs oneDNN's generated code, where its frame would overwrite data.
TEST(Signals, BesideKernelsChangeNothing) {
  const SmallDigits digits;
  const std::string command = std::string(LOCKSTEP_TRAIN) +
                              " --dataset synthetic-digits --batch 64 --epochs 9 --steps 300 " +
                              "--threads 1 --eval-interval never --log-every 1 --save-dir none --metrics ";
  const auto weights_of = [&](const std::string& name) {
    return read_metrics(digits.path(name)).back().at("weights_sha256").get<std::string>();
  };
  BackgroundJob undisturbed(command + digits.path("undisturbed"), digits.file("output"));
  ASSERT_TRUE(becomes_true(seconds(60), [&] { return undisturbed.has_ended(); }));
  ASSERT_EQ(undisturbed.exit_code(), 0) << data::read_all(digits.file("output"));

  BackgroundJob job(command + digits.path("disturbed"), digits.file("output"));
  const auto steps = [&] { return occurrences(data::read_all(digits.file("disturbed")), R"("event":"step")"); };
  ASSERT_TRUE(becomes_true(seconds(60), [&] { return steps() > 0 || job.has_ended(); }));
  int sent = 0;
  while (!job.has_ended() && sent < 100'000) {  // to the very end, which a signal must not make a failure
    for (int i = 0; i < 50; ++i, ++sent) {
      job.send(SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  EXPECT_GT(sent, 500);
  ASSERT_TRUE(becomes_true(seconds(60), [&] { return job.has_ended(); }));
  ASSERT_EQ(job.exit_code(), 0) << data::read_all(digits.file("output"));
  EXPECT_EQ(weights_of("disturbed"), weights_of("undisturbed"));
}

TEST_F(Interruption, ASecondSignalEndsItAtOnce) {
  start(std::string(LOCKSTEP_MPIEXEC) + " -np 2 ", 2);
  if (HasFatalFailure()) return;
  const pid_t first = alive().at(0);
  kill(alive().at(1), SIGSTOP);  // so that the first rank waits in the middle of a step
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(first, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_FALSE(job().has_ended()) << output();
  kill(first, SIGTERM);
  EXPECT_TRUE(becomes_true(seconds(20), [first] { return kill(first, 0) != 0; })) << output();
  for (const pid_t rank : alive()) kill(rank, SIGKILL);
  EXPECT_TRUE(becomes_true(seconds(60), [this] { return job().has_ended(); })) << output();
}

}  // namespace
}  // namespace lockstep::train
