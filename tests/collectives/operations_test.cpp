// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"

#include <gtest/gtest.h>

#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

/// Returns in place for all rank counts, and out of place, which differs by one copy, only for the smaller ones.
std::vector<bool> placements(int ranks) { return ranks <= 17 ? std::vector{true, false} : std::vector{true}; }

TEST(BinomialBroadcast, ReachesAllRanksFromEveryRoot) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const std::set<int> roots{0, 1 % ranks, ranks / 2, ranks - 1};
    for (const int root : roots)
      for (const std::int64_t count : counts_for(ranks)) {
        const Trial trial{.kind = CollectiveKind::broadcast, .count = {count}, .root = {root}};
        ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks, root " << root;
      }
  }
}

TEST(RingAllGather, PutsEveryPartInItsPlace) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks))
      for (const bool in_place : placements(ranks)) {
        const Trial trial{.kind = CollectiveKind::all_gather, .count = {count}, .in_place = in_place};
        ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks, " << count << " elements";
      }
}

/// Proves a reduce-scatter and compares its order of addition with the documented one.
void prove_reduce_scatter(const Trial& trial, int ranks) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << trial.count.value << " elements");
  Simulation simulation = simulate(plans_of(trial, ranks), trial);
  ASSERT_TRUE(is_right(simulation));
  std::vector<std::vector<Expression>> leaves;
  int next_leaf = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& own = leaves.emplace_back();
    const int brought = trial.leaves.empty() ? 1 : trial.leaves[static_cast<std::size_t>(rank)];
    for (int i = 0; i < brought; ++i) own.push_back(simulation.expressions.leaf(next_leaf++));
  }
  for (int rank = 0; rank < ranks; ++rank)
    for (const ResultPiece& piece : simulation.results[static_cast<std::size_t>(rank)])
      ASSERT_EQ(piece.value, ring_reduce_scatter_order(simulation.expressions, leaves, rank))
          << simulation.expressions.to_string(piece.value);
}

TEST(RingReduceScatter, LeavesEachRankItsPartOfTheSum) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks))
      for (const bool in_place : placements(ranks))
        prove_reduce_scatter({.kind = CollectiveKind::reduce_scatter, .count = {count}, .in_place = in_place}, ranks);
}

TEST(RingReduceScatter, TakesNoneOrSeveralLeavesFromARank) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int variant = 0; variant < 3; ++variant)
      for (const bool in_place : {false, true}) {
        std::vector<int> leaves;
        for (int rank = 0; rank < ranks; ++rank) leaves.push_back((rank + variant) % 3);
        prove_reduce_scatter(
            {.kind = CollectiveKind::reduce_scatter, .count = {7}, .leaves = leaves, .in_place = in_place}, ranks);
      }
}

TEST(RingReduceScatter, KeepsScratchToTwoParts) {
  EXPECT_EQ(ring_reduce_scatter({0}, {.ranks = 2, .count = {100}}).scratch, Count{0});
  EXPECT_EQ(ring_reduce_scatter({0}, {.ranks = 8, .count = {100}}).scratch, Count{200});
  EXPECT_EQ(ring_reduce_scatter({0}, {.ranks = 8, .count = {100}, .own = {.leaves = 0}}).scratch, Count{200});
}

/// Proves a reduce and compares its order of addition with the documented one.
void prove_reduce(const Trial& trial, int ranks) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, root " << trial.root.value << ", " << trial.count.value
                                  << " elements");
  Simulation simulation = simulate(plans_of(trial, ranks), trial);
  ASSERT_TRUE(is_right(simulation));
  const auto brought = contributions(simulation.expressions, trial, ranks);
  const Expression claimed = binomial_reduce_order(simulation.expressions, brought, trial.root);
  std::int64_t covered = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const ResultPiece& piece : simulation.results[static_cast<std::size_t>(rank)]) {
      EXPECT_EQ(rank, trial.root.value);
      ASSERT_EQ(piece.value, claimed) << simulation.expressions.to_string(piece.value);
      covered += piece.count;
    }
  EXPECT_EQ(covered, trial.count.value);
}

TEST(BinomialReduce, LeavesTheSumOnEveryRoot) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const std::set<int> roots{0, 1 % ranks, ranks / 2, ranks - 1};
    for (const int root : roots)
      for (const std::int64_t count : counts_for(ranks))
        for (const bool in_place : placements(ranks))
          prove_reduce({.kind = CollectiveKind::reduce, .count = {count}, .root = {root}, .in_place = in_place}, ranks);
  }
}

TEST(BinomialReduce, TakesNoneOrSeveralLeavesFromARank) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int variant = 0; variant < 3; ++variant)
      for (const bool in_place : {false, true}) {
        std::vector<int> leaves;
        for (int rank = 0; rank < ranks; ++rank) leaves.push_back((rank + variant) % 3);
        prove_reduce(
            {.kind = CollectiveKind::reduce, .count = {7}, .root = {ranks / 2}, .leaves = leaves, .in_place = in_place},
            ranks);
      }
}

TEST(BinomialReduce, AddsFromTheRootOn) {
  const auto order = [](int ranks, int root) {
    Expressions e;
    std::vector<Expression> contributions;
    for (int rank = 0; rank < ranks; ++rank) contributions.push_back(e.leaf(rank));
    return e.to_string(binomial_reduce_order(e, contributions, {root}));
  };
  EXPECT_EQ(order(8, 0), "((0+1)+(2+3))+((4+5)+(6+7))");
  EXPECT_EQ(order(5, 0), "((0+1)+(2+3))+4");
  EXPECT_EQ(order(5, 2), "((2+3)+(4+0))+1");
}

TEST(BinomialReduce, NeedsScratchOnlyBetweenTheRootAndTheLeavesOfTheTree) {
  EXPECT_EQ(binomial_reduce({0}, {.ranks = 8, .count = {100}}).scratch, Count{0});
  EXPECT_EQ(binomial_reduce({4}, {.ranks = 8, .count = {100}}).scratch, Count{100});
  EXPECT_EQ(binomial_reduce({7}, {.ranks = 8, .count = {100}}).scratch, Count{0});
}

TEST(BinomialReduce, WritingToAnOutputAwayFromTheRootIsAFault) {
  const Trial trial{.kind = CollectiveKind::reduce, .count = {4}};
  std::vector<Plan> plans = plans_of(trial, 2);
  plans[1].steps.emplace_back(Fill{{Memory::output, 0, 4}});
  const Simulation simulation = simulate(plans, trial);
  ASSERT_TRUE(simulation.fault);
  EXPECT_EQ(simulation.fault->kind, FaultKind::malformed);
}

TEST(BinomialGatherAndScatter, PutEveryPartInItsPlaceForEveryRoot) {
  for (const CollectiveKind kind : {CollectiveKind::gather, CollectiveKind::scatter})
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (const int root : std::set<int>{0, 1 % ranks, ranks / 2, ranks - 1})
        for (const std::int64_t count : counts_for(ranks))
          for (const bool in_place : placements(ranks)) {
            const Trial trial{.kind = kind, .count = {count}, .root = {root}, .in_place = in_place};
            ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial)))
                << name(kind) << ", " << ranks << " ranks, root " << root << ", " << count << " elements";
          }
}

TEST(BinomialGatherAndScatter, KeepScratchToTwoSegments) {
  for (const CollectiveKind kind : {CollectiveKind::gather, CollectiveKind::scatter})
    for (const int ranks : {2, 3, 5, 64, 100}) {
      constexpr std::int64_t segment = 1000;
      for (int rank = 0; rank < ranks; ++rank) {
        const Schedule schedule =
            make_schedule({rank}, {.kind = kind, .ranks = ranks, .count = {1 << 20}}, Algorithm::ring, {segment});
        EXPECT_LE(schedule.plan(0).scratch.value, 2 * segment) << ranks << " ranks";
        for (const Step& step : schedule.plan(0).steps)
          if (const auto* send = std::get_if<Send>(&step)) {
            EXPECT_LE(send->from.count, segment) << ranks << " ranks";
          }
      }
    }
}

/// The parts are equal, different, empty except for a few, or different without empty ones.
TEST(PartsOfDifferentLengths, ArriveByMessages) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather_v, CollectiveKind::reduce_scatter_v, CollectiveKind::all_to_all_v})
    for (int ranks = 1; ranks <= 33; ++ranks)
      for (int pattern = 0; pattern <= 4; ++pattern)
        for (const std::int64_t count : {1, 2, 1009})
          for (const bool in_place : placements(ranks)) {
            if (in_place && kind == CollectiveKind::all_to_all_v) continue;
            const Trial trial = with_parts({.kind = kind, .count = {count}, .in_place = in_place}, ranks, pattern);
            ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial)))
                << name(kind) << ", " << ranks << " ranks, " << count << " elements, pattern " << pattern;
          }
}

TEST(PartsOfDifferentLengths, AreAddedInTheOrderOfTheRing) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    prove_reduce_scatter(with_parts({.kind = CollectiveKind::reduce_scatter_v, .count = {10}}, ranks, 1), ranks);
}

TEST(PartsOfDifferentLengths, AreChecked) {
  const Trial trial = with_parts({.kind = CollectiveKind::all_gather_v, .count = {5}}, 3, 0);  // 5, 0 and 2 elements
  std::vector<Plan> plans = plans_of(trial, 3);
  for (Step& step : plans[1].steps)
    if (auto* receive = std::get_if<Receive>(&step); receive != nullptr && receive->to.count == 2) ++receive->to.count;
  const Simulation beyond_the_part = simulate(plans, trial);
  ASSERT_TRUE(beyond_the_part.fault);
  EXPECT_EQ(beyond_the_part.fault->kind, FaultKind::malformed);
  plans = plans_of(trial, 3);
  plans[2].steps.pop_back();
  ASSERT_TRUE(simulate(plans, trial).fault);
}

/// An empty message says that there is no data; without it, no rank would learn that the other end expects something.
TEST(PairwiseAllToAllV, HasAMessageForEveryPair) {
  const Trial trial{.kind = CollectiveKind::all_to_all_v, .count = {1}, .parts = std::vector<std::int64_t>(16)};
  for (const Plan& plan : plans_of(trial, 4)) EXPECT_EQ(traffic(plan, 1).messages, 3);
  for (const Plan& plan : plans_of(trial, 4)) EXPECT_EQ(plan.steps.size(), 6U);
}

TEST(PairwiseAllToAll, PutsEveryPartInItsPlace) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks)) {
      const Trial trial{.kind = CollectiveKind::all_to_all, .count = {count}};
      ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks, " << count << " elements";
    }
}

/// Each part comes from the correct rank, but the sender meant one of them for another rank.
TEST(PairwiseAllToAll, SendingAnotherRanksPartIsAFault) {
  const Trial trial{.kind = CollectiveKind::all_to_all, .count = {4}};
  std::vector<Plan> plans = plans_of(trial, 3);
  std::get<Send>(plans[0].steps.front()).from.offset = 8;
  const Simulation simulation = simulate(plans, trial);
  ASSERT_TRUE(simulation.fault);
  EXPECT_EQ(simulation.fault->kind, FaultKind::misplaced);
}

TEST(ChainScan, LeavesEachRankTheSumOfThoseBeforeItFromLeftToRight) {
  for (const CollectiveKind kind : {CollectiveKind::scan, CollectiveKind::exclusive_scan})
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (const std::int64_t count : counts_for(ranks))
        for (const bool in_place : placements(ranks)) {
          const Trial trial{.kind = kind, .count = {count}, .in_place = in_place};
          Simulation simulation = simulate(plans_of(trial, ranks), trial);
          ASSERT_TRUE(is_right(simulation)) << name(kind) << ", " << ranks << " ranks, " << count << " elements";
          const auto brought = contributions(simulation.expressions, trial, ranks);
          for (int rank = 1; rank < ranks; ++rank) {
            const int summed = rank + (kind == CollectiveKind::scan ? 1 : 0);
            for (const ResultPiece& piece : simulation.results[static_cast<std::size_t>(rank)])
              ASSERT_EQ(piece.value,
                        simulation.expressions.left_fold(std::span(brought).first(static_cast<std::size_t>(summed))));
          }
        }
}

TEST(ChainScan, NeedsScratchOnlyBetweenTheFirstAndTheLastRankOfAnExclusiveScan) {
  const auto scratch = [](CollectiveKind kind, int rank) {
    return chain_scan({rank}, {.kind = kind, .ranks = 4, .count = {100}}).scratch;
  };
  EXPECT_EQ(scratch(CollectiveKind::scan, 1), Count{0});
  EXPECT_EQ(scratch(CollectiveKind::exclusive_scan, 0), Count{0});
  EXPECT_EQ(scratch(CollectiveKind::exclusive_scan, 1), Count{100});
  EXPECT_EQ(scratch(CollectiveKind::exclusive_scan, 3), Count{0});
}

TEST(DisseminationBarrier, EndsAfterAllHaveBegun) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial{.kind = CollectiveKind::barrier};
    ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace lockstep::collectives
