// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "trainer/loop/shard_moves.hpp"

namespace lockstep::trainer {
namespace {

using Counts = std::vector<int>;

/// Returns how many shards each rank gets, or how many it keeps.
/// @param each     seconds of a shard on each rank
/// @param exchange seconds of a step in which even the slowest rank waits
Counts after(const Counts& now, const std::vector<double>& each, double exchange = 0) {
  std::vector<StepTime> times;
  double longest = 0;
  for (std::size_t rank = 0; rank < each.size(); ++rank) times.push_back({now[rank] * each[rank], 0});
  for (const StepTime& time : times) longest = std::max(longest, time.own);
  for (StepTime& time : times) time.whole = longest + exchange;
  const auto better = balanced(LeafShares(now), times);
  return better ? better->counts(static_cast<int>(each.size())) : now;
}

TEST(Balanced, ASlowRankGivesShardsToTheOthers) {
  EXPECT_EQ(after({8, 8}, {1, 2}), (Counts{11, 5}));
  EXPECT_EQ(after({4, 4, 4, 4}, {1, 2, 1, 1}), (Counts{5, 2, 5, 4}));
  EXPECT_EQ(after({2, 2}, {1, 100}), (Counts{3, 1})) << "each rank keeps a shard";
}

TEST(Balanced, ARankThatHasRecoveredTakesThemBack) { EXPECT_EQ(after({11, 5}, {1, 1}), (Counts{8, 8})); }

TEST(Balanced, IsAsGoodAsAnyDivision) {
  const std::vector<double> each{1, 2.5, 0.7};
  const Counts found = after({4, 4, 4}, each);
  const auto seconds = [&](const Counts& counts) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < each.size(); ++rank) slowest = std::max(slowest, counts[rank] * each[rank]);
    return slowest;
  };
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), 12);
  for (int first = 1; first <= 10; ++first)
    for (int second = 1; first + second <= 11; ++second)
      EXPECT_LE(seconds(found), seconds({first, second, 12 - first - second}));
}

TEST(Balanced, ShardsStayWhereLittleWouldBeGained) {
  EXPECT_EQ(after({4, 4}, {1, 1.1}), (Counts{4, 4})) << "a shard is too much";
  EXPECT_EQ(after({400, 400}, {1, 1.05}), (Counts{400, 400})) << "noise";
  EXPECT_NE(after({400, 400}, {1, 1.2}), (Counts{400, 400}));
  EXPECT_EQ(after({8, 8}, {1, 2}, 200), (Counts{8, 8})) << "the exchange takes most of the step";
}

/// Shards 0 … 10 are three sums, and 11 … 15 are two. Blocks of four shards are fewer sums.
TEST(Balanced, FewerSumsAreWorthMoreThanTheLastShard) {
  EXPECT_EQ(after({8, 8}, {1, 2}, 0.1), (Counts{11, 5}));
  EXPECT_EQ(after({8, 8}, {1, 2}, 4), (Counts{12, 4}));
}

TEST(Balanced, OneRankKeepsAll) { EXPECT_EQ(after({8}, {3}), Counts{8}); }

TEST(Balance, DecidesTogetherByTheMedianOfTheStepsSinceTheLastTime) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(2, {.wait = {.spins_before_yield = 0}});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Balance balance;
      const auto steps_before_decision = [&](double own, double whole) {
        int steps = 1;
        while (!balance.add({steps % 5 == 0 ? 100 : own, whole})) ++steps;  // some steps are outliers
        return steps;
      };
      ProcessGroup& group = groups[static_cast<std::size_t>(rank)];
      EXPECT_EQ(steps_before_decision(rank == 1 ? 0.016 : 0.008, 0.016), 10);
      const auto moved = balance.decide(group, 16);
      ASSERT_TRUE(moved);
      EXPECT_EQ(moved->counts(2), (Counts{11, 5}));
      EXPECT_EQ(steps_before_decision(0.01, 0.01), 31) << "in half a second at 16 ms a step";
      EXPECT_FALSE(balance.decide(group, *moved)) << "both take 10 ms now";
      EXPECT_EQ(steps_before_decision(0.01, 0.01), 50) << "at 10 ms a step";
      EXPECT_FALSE(balance.decide(group, *moved));
      group.close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::trainer
