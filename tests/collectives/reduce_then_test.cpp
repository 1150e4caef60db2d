// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

const std::vector<Reaches> reaches = {{Reach::direct}, {Reach::staged}, {Reach::staged, Reach::direct}};

/// Proves a reduce_then and compares its order of addition with that of the corresponding all-reduce.
void prove_then(const Trial& trial, int ranks, Algorithm algorithm, const ClusterShape& shape = {},
                const Reaches& reach = {Reach::direct}) {
  SCOPED_TRACE(testing::Message() << name(algorithm) << ", " << ranks << " ranks on " << shape.nodes() << " nodes, "
                                  << trial.count.value << " elements, " << (trial.in_place ? "in" : "out of")
                                  << " place, reach " << static_cast<int>(reach.front()));
  Simulation simulation = simulate(plans_of(trial, ranks, algorithm, shape, reach), trial);
  ASSERT_TRUE(is_right(simulation));
  const auto brought = contributions(simulation.expressions, trial, ranks);
  std::int64_t covered = 0;
  for (const ResultPiece& piece : simulation.results.front()) {
    for (const std::int64_t element : {piece.offset, piece.offset + piece.count - 1}) {
      const Expression claimed =
          all_reduce_order(with_slices(algorithm), simulation.expressions, brought, trial.count, element, shape);
      ASSERT_EQ(simulation.expressions.to_string(piece.value), simulation.expressions.to_string(claimed));
    }
    covered += piece.count;
  }
  EXPECT_EQ(covered, trial.count.value);
}

Trial reduce_then_of(std::int64_t count, bool in_place) {
  return {.kind = CollectiveKind::reduce_then, .count = {count}, .in_place = in_place};
}

class ReduceThen : public testing::TestWithParam<Algorithm> {};

TEST_P(ReduceThen, IsRightForAllRankCountsAndCounts) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks)) prove_then(reduce_then_of(count, true), ranks, GetParam());
}

TEST_P(ReduceThen, KeepsTheOutputForTheFunctionOutOfPlace) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : counts_for(ranks)) prove_then(reduce_then_of(count, false), ranks, GetParam());
}

TEST_P(ReduceThen, TakesNoneOrSeveralLeavesFromARank) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (int variant = 0; variant < 3; ++variant)
      for (const bool in_place : {false, true}) {
        Trial trial = reduce_then_of(2 * ranks + 1, in_place);
        for (int rank = 0; rank < ranks; ++rank) trial.leaves.push_back((rank + variant) % 3);
        prove_then(trial, ranks, GetParam());
      }
}

TEST_P(ReduceThen, IsRightInLargerGroups) {
  for (const int radix : {4, 8})
    for (const bool in_place : {true, false})
      for (int ranks = 1; ranks <= 33; ++ranks) {
        const Trial trial = reduce_then_of(1009, in_place);
        const auto plans = plans_of(trial, ranks, GetParam(), {}, {Reach::direct}, radix);
        ASSERT_TRUE(is_right(simulate(plans, trial))) << ranks << " ranks, radix " << radix;
      }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ReduceThen,
                         testing::Values(Algorithm::ring, Algorithm::halving_doubling, Algorithm::tree_order),
                         test_name);

TEST(ReduceThenInSharedMemory, IsRightForAllRankCountsAndCounts) {
  for (const Reaches& reach : reaches)
    for (const bool in_place : {true, false})
      for (const int ranks : ranks_for(reach, in_place ? 64 : 17))
        for (const std::int64_t count : counts_for(ranks))
          prove_then(reduce_then_of(count, in_place), ranks, Algorithm::shared_memory, {}, reach);
}

TEST(ReduceThenInAHierarchy, IsRightOnEqualAndUnequalNodes) {
  for (const Algorithm algorithm :
       {Algorithm::hierarchical_ring, Algorithm::hierarchical_double_tree, Algorithm::hierarchical_halving_doubling,
        Algorithm::hierarchical_recursive_doubling})
    for (const Reaches& reach : reaches)
      for (const ClusterShape& shape : equal_and_unequal_nodes())
        for (const std::int64_t count : counts_for(shape.ranks()))
          for (const bool in_place : {true, false})
            prove_then(reduce_then_of(count, in_place), shape.ranks(), algorithm, shape, reach);
}

/// Returns to how many elements each rank applies the function.
std::vector<std::int64_t> shares(int ranks, Algorithm algorithm, const ClusterShape& shape = {}) {
  std::vector<std::int64_t> result;
  for (const Plan& plan : plans_of(reduce_then_of(1009, true), ranks, algorithm, shape)) {
    std::int64_t& share = result.emplace_back(0);
    for (const Step& step : plan.steps)
      if (const auto* apply = std::get_if<Apply>(&step)) share += apply->to.count;
  }
  return result;
}

TEST(ReduceThenShares, AreNearlyEqual) {
  const auto spread = [](const std::vector<std::int64_t>& all) {
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return *most - *least;
  };
  for (int ranks = 1; ranks <= 16; ++ranks) {
    EXPECT_LE(spread(shares(ranks, Algorithm::ring)), 1) << ranks;
    EXPECT_LE(spread(shares(ranks, Algorithm::double_tree)), 1) << ranks;
    EXPECT_LE(spread(shares(ranks, Algorithm::shared_memory)), 1) << ranks;
  }
  EXPECT_LE(spread(shares(8, Algorithm::recursive_doubling)), 1);
  EXPECT_LE(spread(shares(6, Algorithm::hierarchical_ring, {{0, 0, 0, 1, 1, 1}})), 1);
}

TEST(ReduceThenShares, OfRanksAboveAPowerOfTwoAreEmptyInHalvingDoublingAndTreeOrder) {
  EXPECT_EQ(shares(5, Algorithm::halving_doubling).front(), 0);
  EXPECT_EQ(shares(5, Algorithm::tree_order).back(), 0);
}

TEST(ReduceThenOfADoubleTree, IsTheRing) {
  const Trial trial = reduce_then_of(1009, true);
  prove_then(trial, 5, Algorithm::double_tree);
  EXPECT_EQ(with_slices(Algorithm::double_tree), Algorithm::ring);
}

TEST(ReduceThenOfRecursiveDoubling, AddsInTheSameOrder) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial = reduce_then_of(ranks, true);
    Simulation simulation = simulate(plans_of(trial, ranks, Algorithm::recursive_doubling), trial);
    const auto brought = contributions(simulation.expressions, trial, ranks);
    const Expression claimed =
        all_reduce_order(Algorithm::recursive_doubling, simulation.expressions, brought, trial.count, 0);
    for (const ResultPiece& piece : simulation.results.back()) EXPECT_EQ(piece.value, claimed) << ranks;
  }
}

FaultKind first_fault_of(const std::vector<Plan>& plans, const Trial& trial) {
  const Simulation simulation = simulate(plans, trial);
  EXPECT_TRUE(simulation.fault);
  return simulation.fault ? simulation.fault->kind : FaultKind::redundant;
}

std::size_t place_of_apply(const Plan& plan) {
  const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                  [](const Step& step) { return std::holds_alternative<Apply>(step); });
  return static_cast<std::size_t>(found - plan.steps.begin());
}

TEST(ReduceThenFault, AnElementThatTheFunctionNeverSaw) {
  const Trial trial = reduce_then_of(8, true);
  auto plans = plans_of(trial, 4);
  plans[2].steps.erase(plans[2].steps.begin() + static_cast<std::ptrdiff_t>(place_of_apply(plans[2])));
  EXPECT_EQ(first_fault_of(plans, trial), FaultKind::missing);
}

TEST(ReduceThenFault, AFunctionAppliedBeforeTheSumIsComplete) {
  for (const bool in_place : {true, false}) {
    const Trial trial = reduce_then_of(8, in_place);
    auto plans = plans_of(trial, 4);
    const std::size_t at = place_of_apply(plans[1]);
    std::swap(plans[1].steps[at - 1], plans[1].steps[at]);
    EXPECT_EQ(first_fault_of(plans, trial), FaultKind::missing);
  }
}

/// The results are the same on all ranks, but an optimizer's step would have been made twice.
TEST(ReduceThenFault, AFunctionAppliedToTheSameElementsOnEveryRank) {
  const Trial trial = reduce_then_of(8, true);
  std::vector<Plan> plans;
  for (int rank = 0; rank < 2; ++rank) {
    plans.push_back(pull_all_reduce({rank}, 2, trial.count, {.in_place = true}));
    const Range whole{Memory::output, 0, 8};
    plans.back().steps.emplace_back(Apply{whole, whole});
  }
  EXPECT_EQ(first_fault_of(plans, trial), FaultKind::doubled);
}

TEST(ReduceThenFault, AnOutputOverwrittenBeforeTheFunctionSawIt) {
  const Trial trial = reduce_then_of(8, false);
  auto plans = plans_of(trial, 4);
  const std::size_t at = place_of_apply(plans[3]);
  const Apply apply = std::get<Apply>(plans[3].steps[at]);
  plans[3].steps[at] = Apply{apply.to, apply.to};
  plans[3].steps.insert(plans[3].steps.begin() + static_cast<std::ptrdiff_t>(at), Copy{apply.to, apply.from});
  EXPECT_EQ(first_fault_of(plans, trial), FaultKind::overwritten);
}

TEST(ReduceThenFault, AFunctionWhereNoneWasAskedFor) {
  Trial trial = reduce_then_of(8, true);
  const auto plans = plans_of(trial, 4);
  trial.kind = CollectiveKind::all_reduce;
  EXPECT_EQ(first_fault_of(plans, trial), FaultKind::malformed);
}

TEST(ReduceThenSchedule, RefusesToPullAsAllWouldAddUpEverything) {
  EXPECT_THROW((void)make_schedule({0}, {.kind = CollectiveKind::reduce_then, .count = {8}, .reach = Reach::pulled},
                                   Algorithm::shared_memory, {4}),
               Error);
}

}  // namespace
}  // namespace lockstep::collectives
