// SPDX-License-Identifier: Apache-2.0
// Kills ranks of runs that go on in place. The runs must end as an undisturbed one: with the same bytes in the files of
// the last checkpoint, and the same losses and metrics after every step and epoch.
// LOCKSTEP_KILLS sets how many runs lose ranks (3), and LOCKSTEP_KILL_SEED, which the output shows, draws the same
// instants again.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/train/remains.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "support/background_job.hpp"
#include "support/verdict.hpp"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using testing_support::BackgroundJob;
using testing_support::becomes_true;

constexpr bool has_ulfm = LOCKSTEP_ULFM;
#define LOCKSTEP_REQUIRE_ULFM() \
  if (!has_ulfm) LOCKSTEP_SKIP(ulfm) << "this MPI library has no ULFM; Open MPI 5 has"

std::string elastic_command(int ranks, const std::string& arguments) {
  std::string command = train_command(ranks, arguments);
  return command.insert(command.find(" -np "), " --with-ft ulfm");
}

class InPlace : public testing::Test {
 protected:
  [[nodiscard]] std::string options() const {
    return digits_.arguments() + " --model resnet20 --batch 12 --shards 4 --ema 0.9 --lr 0.01 --epochs 10" +
           " --log-every 1 --threads 1 --save-steps 3 --keep 1";
  }
  [[nodiscard]] std::string folder() const { return digits_.path("run"); }
  [[nodiscard]] std::string output() const { return data::read_all(digits_.file("output")); }

  Remains undisturbed() {
    const std::string whole = digits_.path("whole");
    const auto result = run_train(1, options() + " --save-dir " + whole);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    return remains_of(whole);
  }

  [[nodiscard]] std::vector<pid_t> ranks() const { return testing_support::processes(LOCKSTEP_TRAIN, folder()); }
  [[nodiscard]] int events(const std::string& name) const {
    std::error_code missing;
    const std::filesystem::path metrics = folder() + "/metrics.jsonl";
    return std::filesystem::exists(metrics, missing)
               ? static_cast<int>(occurrences(data::read_all(metrics), R"("event":")" + name + '"'))
               : 0;
  }
  /// Kills one of the ranks, or several at once, some time after the run has done so many steps.
  /// @return how many
  int kill_ranks(BackgroundJob& job, int after_steps, std::chrono::microseconds later, int count,
                 std::mt19937& random) {
    const auto is_time = [&] { return job.has_ended() || events("step") >= after_steps; };
    EXPECT_TRUE(becomes_true(60s, is_time)) << output();
    std::this_thread::sleep_for(later);
    std::vector<pid_t> living = ranks();
    std::shuffle(living.begin(), living.end(), random);
    int killed = 0;
    for (const pid_t pid : living)
      if (killed < count && living.size() > 1 && kill(pid, SIGKILL) == 0) ++killed;
    return killed;
  }

  void expect_to_end_as(const Remains& whole, BackgroundJob& job) {
    ASSERT_TRUE(becomes_true(120s, [&] { return job.has_ended(); })) << output();
    ASSERT_EQ(job.exit_code(), exit_success) << output();
    const Remains remains = remains_of(folder());
    EXPECT_TRUE(remains.model == whole.model) << "weights or running statistics\n" << output();
    EXPECT_TRUE(remains.optimizer == whole.optimizer) << output();
    EXPECT_EQ(remains.position, whole.position) << output();
    std::vector<std::string> of_one;
    std::ranges::set_symmetric_difference(remains.events, whole.events, std::back_inserter(of_one));
    EXPECT_EQ(of_one, std::vector<std::string>()) << "events of one of the runs only\n" << output();
    EXPECT_EQ(remains.end, whole.end) << output();
    std::filesystem::remove_all(folder());
  }

  SmallDigits digits_;
};

TEST_F(InPlace, RunsThatLoseRanksEndAsAnUndisturbedOne) {
  LOCKSTEP_REQUIRE_ULFM();
  const char* const wish = std::getenv("LOCKSTEP_KILLS");
  const char* const seed_wish = std::getenv("LOCKSTEP_KILL_SEED");
  const auto seed = seed_wish == nullptr ? std::random_device()() : static_cast<unsigned>(std::atoi(seed_wish));
  std::printf("LOCKSTEP_KILL_SEED=%u\n", seed);
  std::fflush(stdout);
  std::mt19937 random(seed);
  const auto draw = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  const Remains whole = undisturbed();
  int recoveries = 0;
  for (int run = 0; run < (wish == nullptr ? 3 : std::atoi(wish)) && !HasFatalFailure(); ++run) {
    // Every second run has progress threads, which must hear of the deaths as well.
    const std::string progress_thread = run % 2 == 0 ? " --progress-thread no" : " --progress-thread yes";
    BackgroundJob job(elastic_command(4, options() + progress_thread + " --min-ranks 1 --save-dir " + folder()),
                      digits_.file("output"));
    int left = 4;
    for (int step = 1 + draw(12); left > 1 && step < 75; step += 4 + draw(30))
      left -= kill_ranks(job, step, draw(200'000) * 1us, std::min(left - 1, 1 + draw(2)), random);
    const bool has_ended = becomes_true(120s, [&] { return job.has_ended(); });
    ASSERT_TRUE(has_ended) << output();
    const int events_of_run = events("recovery");
    recoveries += events_of_run;
    EXPECT_GT(events_of_run, 0) << output();
    EXPECT_EQ(occurrences(output(), "that had died " + std::to_string(events_of_run) + " time"), 1) << output();
    // A rank 0 that dies right after it has written its event says nothing.
    EXPECT_LE(occurrences(output(), " died: "), events_of_run) << output();
    EXPECT_GE(occurrences(output(), " died: "), 1) << output();
    expect_to_end_as(whole, job);
  }
  RecordProperty("recoveries", recoveries);
}

TEST_F(InPlace, FewerRanksThanAskedForEndTheRun) {
  LOCKSTEP_REQUIRE_ULFM();
  BackgroundJob job(elastic_command(3, options() + " --min-ranks 3 --save-dir " + folder()), digits_.file("output"));
  std::mt19937 random(1);
  ASSERT_EQ(kill_ranks(job, 3, 0us, 1, random), 1);
  ASSERT_TRUE(becomes_true(60s, [&] { return job.has_ended(); })) << output();
  EXPECT_NE(job.exit_code(), exit_success);
  EXPECT_EQ(occurrences(output(), "2 ranks are left, and --min-ranks asks for 3"), 1) << output();
  EXPECT_TRUE(becomes_true(10s, [&] { return ranks().empty(); }));
}

TEST_F(InPlace, WithoutFaultToleranceTheOptionIsRefused) {
  const auto result = run_train(2, options() + " --min-ranks 1");
  expect_refused(result, exit_usage, {"--min-ranks 1: ", "mpirun --with-ft ulfm"});
}

TEST_F(InPlace, WhatCannotGoOnIsRefused) {
  expect_refused(run_train(2, options() + " --min-ranks 3"), exit_usage, {"--min-ranks 3: there are only 2 ranks"});
  expect_refused(run_train(2, options() + " --min-ranks 1 --zero"), exit_usage,
                 {"--min-ranks with --zero", "--max_restart"});
}

}  // namespace
}  // namespace lockstep::train
