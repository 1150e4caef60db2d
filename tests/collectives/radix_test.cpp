// SPDX-License-Identifier: Apache-2.0
// Tests halving-doubling and recursive doubling in larger groups: proofs, sums and rounds.
#include <gtest/gtest.h>

#include "collectives/choice/selection.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

class Radix : public testing::TestWithParam<Algorithm> {};

std::vector<Plan> plans_with(const Trial& trial, int ranks, Algorithm algorithm, int radix) {
  return plans_of(trial, ranks, algorithm, {}, {Reach::direct}, radix);
}

/// Simulates a trial and expects the order of addition of radix 2.
void expect_right(Algorithm algorithm, const Trial& trial, int ranks, int radix) {
  Simulation simulation = simulate(plans_with(trial, ranks, algorithm, radix), trial);
  ASSERT_TRUE(is_right(simulation)) << ranks << " ranks, radix " << radix << ", " << trial.count.value << " elements";
  const auto own = contributions(simulation.expressions, trial, ranks);
  const Expression order = all_reduce_order(algorithm, simulation.expressions, own, trial.count, 0);
  for (const auto& pieces : simulation.results)
    for (const ResultPiece& piece : pieces)
      ASSERT_EQ(piece.value, order) << ranks << " ranks, radix " << radix << ", "
                                    << simulation.expressions.to_string(piece.value);
}

TEST_P(Radix, DoesNotShowInTheSums) {
  for (const int radix : {3, 8, 32})
    for (int ranks = 1; ranks <= 64; ranks += ranks < 20 ? 1 : 11)
      for (const std::int64_t count : {0, 1, 37, ranks + 1, 4096})
        expect_right(GetParam(), {.count = {count}, .in_place = true}, ranks, radix);
}

TEST_P(Radix, TakesLeavesAsTheyCome) {
  for (const int ranks : {5, 16}) {
    Trial trial{.count = {100}};
    for (int rank = 0; rank < ranks; ++rank) trial.leaves.push_back(rank % 3);
    expect_right(GetParam(), trial, ranks, 4);
  }
}

TEST_P(Radix, OfAThousandRanks) {
  for (const int ranks : {1000, 1024}) expect_right(GetParam(), {.count = {2048}, .in_place = true}, ranks, 32);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Radix, testing::Values(Algorithm::halving_doubling, Algorithm::recursive_doubling),
                         test_name);

int messages(Algorithm algorithm, int ranks, int radix) {
  return static_cast<int>(
      traffic(plans_with({.count = {1024}, .in_place = true}, ranks, algorithm, radix).front(), 4).messages);
}

TEST(RadixTraffic, HasFewRoundsOfManyMessages) {
  EXPECT_EQ(messages(Algorithm::recursive_doubling, 64, 2), 6);
  EXPECT_EQ(messages(Algorithm::recursive_doubling, 64, 4), 3 * 3);
  EXPECT_EQ(messages(Algorithm::recursive_doubling, 64, 8), 2 * 7);
  EXPECT_EQ(messages(Algorithm::recursive_doubling, 64, 32), 2 * 7);  // the groups have nearly equal sizes
  EXPECT_EQ(messages(Algorithm::recursive_doubling, 64, 64), 63);
  EXPECT_EQ(messages(Algorithm::halving_doubling, 64, 8), 2 * 2 * 7);
}

TEST(RadixTraffic, OfHalvingDoublingHasTheSameBytes) {
  for (const int radix : {2, 4, 8, 64}) {
    const auto plans = plans_with({.count = {1024}, .in_place = true}, 64, Algorithm::halving_doubling, radix);
    for (const Plan& plan : plans) EXPECT_EQ(traffic(plan, 4).bytes, Bytes{2 * 63 * 1024 / 64 * 4});
  }
}

}  // namespace
}  // namespace lockstep::collectives
