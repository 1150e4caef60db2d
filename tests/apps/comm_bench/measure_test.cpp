// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/measure.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "apps/comm-bench/contenders.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::comm_bench {
namespace {

/// Reduces correctly, records its name, and may then cause an error or a delay.
class Scripted : public Contender {
 public:
  using Then = std::function<void(const Collective&, int call)>;
  Scripted(std::string name, const World& world, std::string& log, Then then)
      : Contender(std::move(name)), world_(&world), log_(&log), then_(std::move(then)) {}

  void run(const Collective& collective) override {
    *log_ += name();
    backends::mpi_blocking(world_->group(), collective);
    then_(collective, ++calls_);
  }
  void close() override {}

 private:
  const World* world_;
  std::string* log_;
  Then then_;
  int calls_ = 0;
};

class Measure : public testing::Test {
 protected:
  void add(
      const std::string& name, Scripted::Then then = [](const Collective&, int) {}) {
    contenders_.push_back(std::make_unique<Scripted>(name, world_, log_, std::move(then)));
  }
  std::vector<Measurement> measured(const Effort& effort) {
    const Exercise::Shape shape{.kind = CollectiveKind::all_reduce,
                                .dtype = DType::float32,
                                .me = world_.rank(),
                                .ranks = world_.size(),
                                .part = {1000}};
    const Allocation memory = allocate_host(Exercise::memory_needed(shape));
    Exercise exercise(shape, memory.data());
    GroupRanks ranks(world_.group());
    Exercise* const for_all[] = {&exercise};
    return measure(ranks, contenders_, for_all, effort);
  }
  void TearDown() override { world_.close(); }

  World world_;
  std::string log_;
  Contenders contenders_;
};

TEST_F(Measure, TakesContendersInTurnInAnotherOrderEachTime) {
  add("A");
  add("B");
  const auto results = measured({.warmup = 1, .repetitions = 30});
  std::set<std::string> rounds;
  for (std::size_t at = 0; at < log_.size(); at += 2) rounds.insert(log_.substr(at, 2));
  EXPECT_EQ(log_.size(), 2U * 31U);
  EXPECT_EQ(rounds, (std::set<std::string>{"AB", "BA"}));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[1].algorithm, "B");
  EXPECT_EQ(results[1].bytes, Bytes{4000});
  EXPECT_EQ(results[0].wrong + results[1].wrong, 0);
}

TEST_F(Measure, FindsOneWrongElementInOneRepetitionOnOneRank) {
  const bool culprit = world_.rank().value == world_.size() - 1;
  add("A");
  add("B", [&](const Collective& c, int call) {
    if (culprit && call == 3) static_cast<float*>(c.out.data)[777] += 1;
  });
  const auto results = measured({.warmup = 1, .repetitions = 5});
  EXPECT_EQ(results[0].wrong, 0);
  EXPECT_EQ(results[1].wrong, 1);
}

TEST_F(Measure, CountsTheSlowestRanksTime) {
  using namespace std::chrono_literals;
  const bool slow = world_.rank().value == world_.size() - 1;
  add("A", [&](const Collective&, int call) {
    if (slow) std::this_thread::sleep_for(call % 2 == 0 ? 2ms : 150ms);
  });
  const auto results = measured({.warmup = 1, .repetitions = 5});  // calls 2 … 6: three short, two long
  EXPECT_GE(results[0].min_seconds, 0.002);
  EXPECT_GE(results[0].median_seconds, results[0].min_seconds);
  EXPECT_LT(results[0].median_seconds, 0.150);
}

TEST_F(Measure, CountsFromTheCommonStartAndNotFromARanksOwn) {
  using namespace std::chrono_literals;
  if (world_.rank().value == 0) std::this_thread::sleep_for(50ms);
  GroupRanks ranks(world_.group());
  StartLine line(ranks, Protocol::common_clock);
  ASSERT_TRUE(line.common_clock()) << "the ranks of this test share a machine";
  std::set<std::int64_t> starts;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point start = line.wait();
    EXPECT_LE(start, Clock::now());
    std::array<std::int64_t, 2> ends = {start.time_since_epoch().count(), -start.time_since_epoch().count()};
    ranks.max(ends);
    EXPECT_EQ(ends[0], -ends[1]) << "the ranks count from different moments";
    starts.insert(ends[0]);
  }
  EXPECT_EQ(starts.size(), 3U);
}

/// One rank that finds a different clock on the other machine.
class RanksOfTwoMachines : public Ranks {
 public:
  [[nodiscard]] int size() const override { return 2; }
  void barrier() override { ++barriers; }
  void max(std::span<std::int64_t> numbers) override { ++numbers.back(); }
  void sum(std::span<std::int64_t>) override {}
  int barriers = 0;
};

TEST_F(Measure, WithoutACommonClockABarrierAndTheRanksOwnStartMustDo) {
  RanksOfTwoMachines ranks;
  StartLine line(ranks, Protocol::common_clock);
  EXPECT_FALSE(line.common_clock());
  const Clock::time_point before = Clock::now();
  const Clock::time_point start = line.wait();
  EXPECT_GE(start, before);
  EXPECT_LE(start, Clock::now());
  EXPECT_EQ(ranks.barriers, 1);
}

TEST_F(Measure, ByTheBarriersProtocolEachRankCountsFromWhenItLeaves) {
  GroupRanks ranks(world_.group());
  StartLine line(ranks, Protocol::barrier);
  EXPECT_FALSE(line.common_clock());
  const Clock::time_point before = Clock::now();
  EXPECT_GE(line.wait(), before);
}

TEST_F(Measure, RepeatsAsOftenAsTheTimeAllows) {
  using namespace std::chrono_literals;
  add("A", [](const Collective&, int) { std::this_thread::sleep_for(10ms); });
  measured({.warmup = 1, .seconds = 1e-3});
  EXPECT_EQ(log_.size(), 1U + 5U) << "never fewer than five";
  log_.clear();
  measured({.warmup = 1, .seconds = 0.2});
  EXPECT_GE(log_.size(), 1U + 5U);
  EXPECT_LE(log_.size(), 1U + 20U);
}

TEST_F(Measure, RepeatsAThousandTimesAtMost) {
  add("A");
  measured({.warmup = 2, .seconds = 1e9});
  EXPECT_EQ(log_.size(), 1002U);
}

}  // namespace
}  // namespace lockstep::comm_bench
