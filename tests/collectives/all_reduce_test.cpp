// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "collectives/plan/expression.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

class AllReduce : public testing::TestWithParam<Algorithm> {
 protected:
  /// Proves the algorithm in this trial and compares its order of addition with the documented one.
  static void prove(const Trial& trial, int ranks) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks, " << trial.count.value << " elements");
    Simulation simulation = simulate(plans_of(trial, ranks, GetParam()), trial);
    ASSERT_TRUE(is_right(simulation));
    const auto brought = contributions(simulation.expressions, trial, ranks);
    std::int64_t covered = 0;
    for (const ResultPiece& piece : simulation.results.front()) {
      for (const std::int64_t element : {piece.offset, piece.offset + piece.count - 1}) {
        const Expression claimed = all_reduce_order(GetParam(), simulation.expressions, brought, trial.count, element);
        ASSERT_EQ(simulation.expressions.to_string(piece.value), simulation.expressions.to_string(claimed));
      }
      covered += piece.count;
    }
    EXPECT_EQ(covered, trial.count.value);
  }
};

TEST_P(AllReduce, IsRightForAllRankCountsAndCounts) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks)) prove({.count = {count}, .in_place = true}, ranks);
}

TEST_P(AllReduce, IsRightOutOfPlace) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const std::int64_t count : counts_for(ranks)) prove({.count = {count}, .in_place = false}, ranks);
}

TEST_P(AllReduce, TakesNoneOrSeveralLeavesFromARank) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (int variant = 0; variant < 3; ++variant) {
      std::vector<int> leaves;
      for (int rank = 0; rank < ranks; ++rank) leaves.push_back((rank + variant) % 3);
      for (const bool in_place : {false, true})
        prove({.count = {2 * ranks + 1}, .leaves = leaves, .in_place = in_place}, ranks);
    }
  }
}

TEST_P(AllReduce, GivesTheNeutralElementWhereNobodyBringsAnything) { prove({.count = {10}, .leaves = {0, 0, 0}}, 3); }

INSTANTIATE_TEST_SUITE_P(Algorithms, AllReduce, testing::ValuesIn(message_algorithms), test_name);

/// Returns the order of addition of one element as text.
std::string order(Algorithm algorithm, int ranks, std::int64_t element = 0) {
  const Trial trial{.count = {ranks}, .in_place = true};
  const Simulation simulation = simulate(plans_of(trial, ranks, algorithm), trial);
  for (const ResultPiece& piece : simulation.results.front())
    if (piece.offset <= element && element < piece.offset + piece.count)
      return simulation.expressions.to_string(piece.value);
  return {};
}

TEST(RingAllReduce, AddsEachChunkRoundTheRing) {
  EXPECT_EQ(order(Algorithm::ring, 4, 3), "((0+1)+2)+3");
  EXPECT_EQ(order(Algorithm::ring, 4, 0), "((1+2)+3)+0");
  EXPECT_EQ(order(Algorithm::ring, 4, 1), "((2+3)+0)+1");
}

TEST(DoubleTreeAllReduce, AddsChildrenToTheirParents) {
  EXPECT_EQ(order(Algorithm::double_tree, 4, 0), "0+((1+2)+3)");
  EXPECT_EQ(order(Algorithm::double_tree, 4, 3), "(0+(1+2))+3");
  EXPECT_EQ(order(Algorithm::double_tree, 8, 0), "0+((((1+2)+3)+4)+((5+6)+7))");
}

TEST(DoubleTreeAllReduce, RankWithChildrenInOneTreeIsALeafOfTheOther) {
  for (int ranks = 3; ranks <= 64; ++ranks) {
    int busy_twice = 0;
    for (const Plan& plan : plans_of({.count = {2}, .in_place = true}, ranks, Algorithm::double_tree)) {
      std::set<std::int64_t> halves;  // the halves of the buffer that the rank receives from children
      for (const Step& step : plan.steps)
        if (const auto* from_child = std::get_if<ReceiveReduce>(&step)) halves.insert(from_child->to.offset);
      if (halves.size() == 2) ++busy_twice;
    }
    EXPECT_EQ(busy_twice, ranks % 2) << ranks << " ranks";
  }
}

TEST(HalvingDoublingAllReduce, AddsInABalancedTree) {
  EXPECT_EQ(order(Algorithm::halving_doubling, 8), "((0+1)+(2+3))+((4+5)+(6+7))");
  EXPECT_EQ(order(Algorithm::halving_doubling, 5), "((0+1)+2)+(3+4)");
}

TEST(TreeOrderAllReduce, AddsInTheLeftCompleteBinaryTree) {
  EXPECT_EQ(order(Algorithm::tree_order, 3), "(0+1)+2");
  EXPECT_EQ(order(Algorithm::tree_order, 5), "((0+1)+(2+3))+4");
  EXPECT_EQ(order(Algorithm::tree_order, 7), "((0+1)+(2+3))+((4+5)+6)");
  EXPECT_EQ(order(Algorithm::tree_order, 8), "((0+1)+(2+3))+((4+5)+(6+7))");
}

/// All elements and all counts have the same order, so blocks, segments and algorithms over other media may split the
/// data in any way.
TEST(TreeOrderAllReduce, HasOneOrderForAllElementsOfAllCounts) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : {1, ranks, 1009}) {
      const Trial trial{.count = {count}, .in_place = true};
      Simulation simulation = simulate(plans_of(trial, ranks, Algorithm::tree_order), trial);
      ASSERT_TRUE(is_right(simulation));
      const auto leaves = contributions(simulation.expressions, trial, ranks);
      const Expression canonical = canonical_tree_order(simulation.expressions, leaves);
      for (const auto& result : simulation.results)
        for (const ResultPiece& piece : result) ASSERT_EQ(piece.value, canonical) << ranks << " ranks";
    }
}

TEST(RecursiveDoublingAllReduce, AddsInABalancedTree) {
  EXPECT_EQ(order(Algorithm::recursive_doubling, 8), "((0+1)+(2+3))+((4+5)+(6+7))");
  EXPECT_EQ(order(Algorithm::recursive_doubling, 7), "((0+1)+(2+3))+((4+5)+6)");
}

}  // namespace
}  // namespace lockstep::collectives
