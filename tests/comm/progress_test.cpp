// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "comm/operation.hpp"
#include "comm/progress_thread.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// A source with a number of moves to make, which records the threads that make them. Only `left` may be read without
/// the lock.
class Countdown : public ProgressSource {
 public:
  explicit Countdown(Progress& progress) : progress_(&progress) { progress_->add(*this); }
  ~Countdown() override { progress_->remove(*this); }

  void submit(int moves) {
    const Progress::Exclusive exclusive(*progress_);
    left += moves;
  }
  bool progress() noexcept override {
    ++polls;
    movers.insert(std::this_thread::get_id());
    if (left == 0) return false;
    --left;
    return true;
  }
  [[nodiscard]] bool idle() const noexcept override { return left == 0; }

  std::atomic<int> left = 0;
  std::atomic<std::int64_t> polls = 0;
  std::set<std::thread::id> movers;

 private:
  Progress* progress_;
};

/// Waits until the condition holds. @return false if it does not become true in 30 s
template <typename Condition>
bool comes_true(const Condition& condition) {
  const auto begin = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30)) return false;
    std::this_thread::yield();
  }
  return true;
}

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(Progress, MovesOnlyWhenAskedTo) {
  Progress progress;
  Countdown source(progress);
  source.submit(2);
  rest();
  EXPECT_EQ(source.left, 2);
  EXPECT_TRUE(progress.poll());
  progress.wait([&] { return source.left == 0; });
  EXPECT_FALSE(progress.poll());
  EXPECT_EQ(source.movers, std::set{std::this_thread::get_id()});
}

TEST(Progress, AWaitForWhatIsThereDoesNotPoll) {
  Progress progress;
  Countdown source(progress);
  progress.wait([] { return true; });
  EXPECT_EQ(source.polls, 0);
}

/// A source that moves by itself after a number of polls, or after it has slept.
class Sleeper : public ProgressSource {
 public:
  explicit Sleeper(Progress& progress) : progress_(&progress) { progress_->add(*this); }
  ~Sleeper() override { progress_->remove(*this); }

  bool progress() noexcept override {
    ++polls;
    return polls == moves_at;
  }
  [[nodiscard]] bool idle() const noexcept override { return polls >= moves_at; }
  bool sleep(std::chrono::nanoseconds at_most) noexcept override {
    if (!can_sleep) return false;
    ++sleeps;
    longest = std::max(longest, at_most);
    polls = moves_at;
    return true;
  }
  void wait(int after_polls) {
    polls = sleeps = 0;
    moves_at = after_polls;
    progress_->wait([this] { return idle(); });
  }

  bool can_sleep = true;
  int polls = 0;
  int moves_at = 0;
  int sleeps = 0;
  std::chrono::nanoseconds longest{0};

 private:
  Progress* progress_;
};

TEST(Progress, SpinsThenYieldsThenSleeps) {
  Progress progress({.spins_before_yield = 5, .yields_before_sleep = 7, .adaptive = false});
  Sleeper source(progress);
  source.wait(12);
  EXPECT_EQ(source.sleeps, 0);
  source.wait(1000);
  EXPECT_EQ(source.sleeps, 1);
}

TEST(Progress, DoesNotSleepWhereNobodyWouldWakeIt) {
  Progress progress({.spins_before_yield = 0, .yields_before_sleep = 0});
  Sleeper source(progress);
  source.can_sleep = false;
  source.wait(1000);
  EXPECT_EQ(source.polls, 1000);
}

TEST(Progress, SleepsShorterWhereOnlyOneOfSeveralCanWakeIt) {
  Progress progress({.spins_before_yield = 0, .yields_before_sleep = 0});
  Sleeper source(progress);
  source.wait(1000);
  const auto alone = source.longest;
  source.longest = {};
  Countdown other(progress);
  other.submit(1'000'000);
  source.wait(1'000'000);
  EXPECT_LT(source.longest, alone);
}

TEST(Progress, SpinsLessWhereItIsInVainAndMoreAgainWhereItIsNot) {
  Progress progress({.spins_before_yield = 64, .yields_before_sleep = 0});
  Sleeper source(progress);
  source.wait(1000);
  EXPECT_EQ(progress.spins(), 32);
  for (int i = 0; i < 10; ++i) source.wait(1000);
  EXPECT_EQ(progress.spins(), 0);
  for (int i = 0; i < 10; ++i) source.wait(1);
  EXPECT_EQ(progress.spins(), 64);
}

/// A clock that advances with each yield, and does not let threads sleep.
class TimeOfYields : public TimeSource {
 public:
  explicit TimeOfYields(std::chrono::nanoseconds of_each) : each(of_each) {}
  [[nodiscard]] Clock::time_point now() override { return Clock::time_point(time); }
  void yield() override { time += each; }
  bool sleep(ProgressSource& /*source*/, std::chrono::nanoseconds at_most) override {
    longest = std::max(longest, at_most);
    return false;
  }

  std::chrono::nanoseconds each;
  std::chrono::nanoseconds time{0};
  std::chrono::nanoseconds longest{0};
};

TEST(Progress, HardlySpinsWhereAnotherThreadUsesItsCoreForMoments) {
  TimeOfYields time(std::chrono::nanoseconds(300));
  Progress progress({.spins_before_yield = 256, .yields_before_sleep = WaitPolicy::always}, &time);
  Sleeper source(progress);
  source.wait(1000);
  EXPECT_EQ(progress.spins(), 128);  // the core was its own
  time.each = std::chrono::microseconds(10);
  for (int i = 0; i < 2; ++i) source.wait(1000);
  EXPECT_EQ(progress.spins(), 0);
  for (int i = 0; i < 2; ++i) source.wait(1);
  EXPECT_EQ(progress.spins(), 3);
  for (int i = 0; i < 10; ++i) source.wait(1);
  EXPECT_EQ(progress.spins(), 256);
}

TEST(Progress, GoesOnSpinningWhereItAlwaysSpins) {
  Progress progress({.spins_before_yield = WaitPolicy::always});
  Sleeper source(progress);
  for (int i = 0; i < 2; ++i) source.wait(1);
  EXPECT_EQ(progress.spins(), WaitPolicy::always);
}

TEST(Progress, SpinsForLongerBesideAThreadThatKeepsItsCore) {
  TimeOfYields time(std::chrono::milliseconds(3));
  Progress progress({.spins_before_yield = 256, .yields_before_sleep = WaitPolicy::always}, &time);
  Sleeper source(progress);
  source.wait(1000);
  EXPECT_EQ(progress.spins(), 2048);
  time.time = {};
  source.wait(1000);
  EXPECT_EQ(time.time.count(), 0);
  for (int i = 0; i < 100; ++i) source.wait(1);
  EXPECT_EQ(progress.spins(), 256);
}

TEST(Progress, WaitsByTheTimeThatItIsGiven) {
  TimeOfYields time(std::chrono::seconds(1));
  Progress progress({.spins_before_yield = 0, .yields_before_sleep = 0}, &time);
  Sleeper source(progress);
  source.moves_at = 1'000'000;
  EXPECT_FALSE(progress.wait_until([] { return false; }, progress.now() + std::chrono::hours(1)));
  EXPECT_EQ(time.time, std::chrono::hours(1));
  EXPECT_EQ(source.sleeps, 0);
  EXPECT_GT(time.longest.count(), 0);
}

TEST(WaitPolicy, FollowsItsName) {
  for (const std::string_view name : wait_names()) {
    Progress progress(make_wait_policy(name, 100));
    Sleeper source(progress);
    source.wait(50);
    EXPECT_EQ(source.sleeps > 0, name == "sleep") << name;
    source.wait(10'000);
    EXPECT_EQ(source.sleeps > 0, name == "sleep" || name == "auto") << name;
    EXPECT_EQ(progress.spins() == 0, name == "sleep" || name == "yield") << name;
  }
}

TEST(ProgressThread, MovesWhatIsUnderWayWhileTheOwnerIsBusy) {
  Progress progress;
  Countdown source(progress);
  {
    const ProgressThread thread(progress);
    source.submit(10'000);
    EXPECT_TRUE(comes_true([&] { return source.left == 0; }));
  }
  EXPECT_EQ(source.movers.count(std::this_thread::get_id()), 0U);
}

TEST(ProgressThread, RestsWhenNothingIsUnderWay) {
  Progress progress;
  Countdown source(progress);
  const ProgressThread thread(progress);
  for (int round = 0; round < 3; ++round) {
    source.submit(10);
    ASSERT_TRUE(comes_true([&] { return source.left == 0; }));
    rest();
    const std::int64_t polls = source.polls;
    rest();
    EXPECT_EQ(source.polls, polls);
  }
}

TEST(ProgressThread, IsKeptAwayByWhoeverHoldsTheProgress) {
  Progress progress;
  Countdown source(progress);
  const ProgressThread thread(progress, {.spins_before_nap = 1'000'000});
  for (int round = 0; round < 3; ++round) {
    const Progress::Exclusive outer(progress);
    const Progress::Exclusive inner(progress);  // such as a back end that submits while it closes
    source.submit(5);
    const int left = source.left;
    rest();
    EXPECT_EQ(source.left, left);
  }
  EXPECT_TRUE(comes_true([&] { return source.left == 0; }));
}

TEST(ProgressThread, LeavesPollingToTheOwnerWhoWaits) {
  Progress progress({.spins_before_yield = 0});
  Countdown source(progress);
  int polls_by_owner = 0;
  const ProgressThread thread(progress);
  progress.wait([&] {
    if (polls_by_owner == 0) source.submit(100);
    return ++polls_by_owner > 50;
  });
  const Progress::Exclusive exclusive(progress);
  EXPECT_GT(polls_by_owner, 50);
  EXPECT_GE(source.movers.count(std::this_thread::get_id()), 1U);
}

TEST(ProgressThread, OwnersWhoSubmitAndWaitInTurnGetTheirTurn) {
  Progress progress({.spins_before_yield = 0});
  Countdown source(progress);
  const ProgressThread thread(progress, {.spins_before_nap = 0});
  for (int i = 0; i < 2000; ++i) {
    source.submit(i % 3);
    if (i % 2 == 0) progress.wait([&] { return source.left == 0; });
  }
  progress.wait([&] { return source.left == 0; });
  EXPECT_EQ(source.left, 0);
}

TEST(ProgressThread, MayBeStoppedAtAnyTimeAndStartedAgain) {
  Progress progress;
  Countdown source(progress);
  for (int i = 0; i < 50; ++i) {
    const ProgressThread thread(progress);
    source.submit(1000);
  }
  progress.wait([&] { return source.left == 0; });
}

TEST(ProgressThread, IsRefusedWhereThereIsOne) {
  Progress progress;
  const ProgressThread thread(progress);
  EXPECT_THROW(ProgressThread{progress}, Error);
}

TEST(ProgressThread, SourcesMayComeAndGo) {
  Progress progress;
  const ProgressThread thread(progress);
  for (int i = 0; i < 100; ++i) {
    Countdown source(progress);
    source.submit(3);
    if (i % 2 == 0) progress.wait([&] { return source.left == 0; });
  }
}

}  // namespace
}  // namespace lockstep
