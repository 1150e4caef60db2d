#include <gtest/gtest.h>

#include "collectives/trials.hpp"
#include "lockstep/collectives/ring.hpp"

namespace lockstep::collectives {
namespace {

/// In place for all rank counts; out of place, which differs by one copy, for the smaller ones.
std::vector<bool> placements(int ranks) { return ranks <= 17 ? std::vector{true, false} : std::vector{true}; }

TEST(BinomialBroadcast, ReachesAllRanksFromEveryRoot) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const std::set<int> roots{0, 1 % ranks, ranks / 2, ranks - 1};
    for (const int root : roots)
      for (const std::int64_t count : counts_for(ranks)) {
        const Trial trial{.operation = Operation::broadcast, .count = {count}, .root = {root}};
        ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks, root " << root;
      }
  }
}

TEST(RingAllGather, PutsEveryPartInItsPlace) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks))
      for (const bool in_place : placements(ranks)) {
        const Trial trial{.operation = Operation::all_gather, .count = {count}, .in_place = in_place};
        ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks, " << count << " elements";
      }
}

/// Proves a reduce-scatter and compares the order of addition with the one it claims.
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
        prove_reduce_scatter({.operation = Operation::reduce_scatter, .count = {count}, .in_place = in_place}, ranks);
}

TEST(RingReduceScatter, TakesNoneOrSeveralLeavesFromARank) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int variant = 0; variant < 3; ++variant)
      for (const bool in_place : {false, true}) {
        std::vector<int> leaves;
        for (int rank = 0; rank < ranks; ++rank) leaves.push_back((rank + variant) % 3);
        prove_reduce_scatter(
            {.operation = Operation::reduce_scatter, .count = {7}, .leaves = leaves, .in_place = in_place}, ranks);
      }
}

TEST(RingReduceScatter, KeepsScratchToTwoParts) {
  EXPECT_EQ(ring_reduce_scatter({0}, 2, {100}).scratch, Count{0});
  EXPECT_EQ(ring_reduce_scatter({0}, 8, {100}).scratch, Count{200});
  EXPECT_EQ(ring_reduce_scatter({0}, 8, {100}, {.leaves = 0}).scratch, Count{200});
}

TEST(DisseminationBarrier, EndsAfterAllHaveBegun) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial{.operation = Operation::barrier};
    ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks), trial))) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace lockstep::collectives
