// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "collectives/algorithms/operations.hpp"
#include "collectives/choice/selection.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

constexpr Rates rates{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .gamma_seconds_per_byte = 0.125};
constexpr CostModel model{.local = {5, 0.25}, .remote = {5, 0.25}, .gamma_seconds_per_byte = 0.125};
constexpr std::int64_t element_bytes = 4;

double simulated(const Trial& trial, int ranks, Algorithm algorithm = Algorithm::ring) {
  return run(plans_of(trial, ranks, algorithm), element_bytes, model).seconds;
}

double all_reduce_price(Algorithm algorithm, int ranks, std::int64_t count) {
  return simulated({.count = {count}, .in_place = true}, ranks, algorithm);
}

double operation_seconds(CollectiveKind kind, int ranks, Bytes bytes, const Rates& on) {
  return seconds(row_of(kind).cost(ranks), bytes, on);
}

double tolerance(double seconds) { return 1e-12 * seconds; }

TEST(Price, OfDividingAllReducesIsTheFormula) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling, Algorithm::recursive_doubling})
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const std::int64_t count = 64 * ranks;
      const double formula = all_reduce_seconds(algorithm, ranks, {count * element_bytes}, alike(rates));
      EXPECT_NEAR(all_reduce_price(algorithm, ranks, count), formula, tolerance(formula))
          << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// Some formulas are exact, others bounds or estimates; the tests above and below say which.
TEST(Price, OfEveryAllReduceIsAboutTheFormula) {
  for (const Algorithm algorithm : message_algorithms)
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const double formula = all_reduce_seconds(algorithm, ranks, {64 * 64 * ranks * element_bytes}, alike(rates));
      const double price = all_reduce_price(algorithm, ranks, 64 * 64 * ranks);
      EXPECT_GE(price, 0.4 * formula) << name(algorithm) << ", " << ranks << " ranks";
      EXPECT_LE(price, 1.1 * formula) << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// A message takes at least 5 and occupies the ports for only 1 of it. If the number of ranks is not a power of two,
/// the ranks that have folded in others begin later, and their messages meet others in the ports.
TEST(Price, OfLargerRadicesIsTheFormulaForPowersOfTwoWhereAddingIsFree) {
  constexpr Rates waiting{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .wire_seconds = 4};
  constexpr CostModel links{.local = {5, 0.25, 4}, .remote = {5, 0.25, 4}};
  for (const Algorithm algorithm : {Algorithm::halving_doubling, Algorithm::recursive_doubling})
    for (const int radix : {2, 4, 8, 32})
      for (int ranks = 1; ranks <= 64; ++ranks) {
        const Trial trial{.count = {64 * ranks}, .in_place = true};
        const double formula =
            all_reduce_seconds(algorithm, ranks, {trial.count.value * element_bytes}, alike(waiting), radix);
        const auto plans = plans_of(trial, ranks, algorithm, {}, {Reach::direct}, radix);
        const bool is_power_of_two = (ranks & (ranks - 1)) == 0;
        const double price = run(plans, element_bytes, links).seconds;
        EXPECT_GE(price, (is_power_of_two ? 1 : 0.95) * formula - tolerance(formula))
            << name(algorithm) << ", radix " << radix << ", " << ranks << " ranks";
        EXPECT_LE(price, (is_power_of_two ? 1 : 1.3) * formula + tolerance(formula))
            << name(algorithm) << ", radix " << radix << ", " << ranks << " ranks";
      }
}

TEST(Price, OfOtherAllReducesIsBoundedByTheNextDividingOne) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (const std::int64_t count : {64 * ranks - 1, 64 * ranks - ranks / 2, 1009}) {
        const std::int64_t divisor = algorithm == Algorithm::ring ? ranks : 64;  // multiple of every power of two here
        const std::int64_t rounded = (count + divisor - 1) / divisor * divisor;
        const double bound = all_reduce_seconds(algorithm, ranks, {rounded * element_bytes}, alike(rates));
        EXPECT_LE(all_reduce_price(algorithm, ranks, count), bound + tolerance(bound));
      }
}

TEST(Price, OfTheDoubleTreeIsWithinItsBound) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : {2, 64, 100000}) {
      const double bound = all_reduce_seconds(Algorithm::double_tree, ranks, {count * element_bytes}, alike(rates));
      const double price = all_reduce_price(Algorithm::double_tree, ranks, count);
      EXPECT_LE(price, bound + tolerance(bound)) << ranks << " ranks";
      EXPECT_GE(price, 0.4 * bound) << ranks << " ranks";
    }
}

TEST(Price, OfTheTreeOrderIsTheFormulaForPowersOfTwo) {
  for (int ranks = 1; ranks <= 1024; ranks *= 2) {
    const std::int64_t count = 4 * ranks;
    const double formula = all_reduce_seconds(Algorithm::tree_order, ranks, {count * element_bytes}, alike(rates));
    EXPECT_NEAR(all_reduce_price(Algorithm::tree_order, ranks, count), formula, tolerance(formula)) << ranks;
  }
}

TEST(Price, OfTheTreeOrderIsNearItsEstimate) {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const std::int64_t count : {1, 64, 64 * ranks, 64 * 1009}) {
      const std::int64_t rounded = (count + 63) / 64 * 64;  // a multiple of every power of two here
      const double estimate = all_reduce_seconds(Algorithm::tree_order, ranks, {rounded * element_bytes}, alike(rates));
      const double price = all_reduce_price(Algorithm::tree_order, ranks, count);
      EXPECT_LE(price, 1.1 * estimate) << ranks << " ranks, " << count << " elements";
      if (count >= 64) {
        EXPECT_GE(price, 0.5 * estimate) << ranks << " ranks, " << count << " elements";
      }
    }
}

TEST(Price, OfTheOtherOperationsIsTheFormula) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Count count{1009};
    const Bytes bytes{count.value * element_bytes};
    const double broadcast = operation_seconds(CollectiveKind::broadcast, ranks, bytes, rates);
    EXPECT_NEAR(simulated({.kind = CollectiveKind::broadcast, .count = count}, ranks), broadcast, tolerance(broadcast));
    const double gather = operation_seconds(CollectiveKind::all_gather, ranks, bytes, rates);
    EXPECT_NEAR(simulated({.kind = CollectiveKind::all_gather, .count = count}, ranks), gather, tolerance(gather));
    const double scatter = operation_seconds(CollectiveKind::reduce_scatter, ranks, bytes, rates);
    EXPECT_NEAR(simulated({.kind = CollectiveKind::reduce_scatter, .count = count}, ranks), scatter,
                tolerance(scatter));
    const double reduce = operation_seconds(CollectiveKind::reduce, ranks, bytes, rates);
    EXPECT_NEAR(simulated({.kind = CollectiveKind::reduce, .count = count, .root = {ranks / 3}}, ranks), reduce,
                tolerance(reduce));
    const double exchange = operation_seconds(CollectiveKind::all_to_all, ranks, bytes, rates);
    EXPECT_NEAR(simulated({.kind = CollectiveKind::all_to_all, .count = count}, ranks), exchange, tolerance(exchange));
    for (const CollectiveKind kind : {CollectiveKind::gather, CollectiveKind::scatter}) {
      const double rooted = operation_seconds(kind, ranks, bytes, rates);
      EXPECT_NEAR(simulated({.kind = kind, .count = count, .root = {ranks / 3}}, ranks), rooted, tolerance(rooted));
    }
    for (const CollectiveKind kind : {CollectiveKind::scan, CollectiveKind::exclusive_scan}) {
      const double chain = operation_seconds(kind, ranks, bytes, rates);
      EXPECT_NEAR(simulated({.kind = kind, .count = count}, ranks), chain, tolerance(chain)) << name(kind);
    }
    EXPECT_EQ(simulated({.kind = CollectiveKind::barrier}, ranks),
              operation_seconds(CollectiveKind::barrier, ranks, {0}, rates));
  }
}

/// All messages of an all-to-all are under way at once.
TEST(Price, OfAnAllToAllWaitsForTheWireOnce) {
  constexpr Rates waiting{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .wire_seconds = 4};
  constexpr CostModel links{.local = {5, 0.25, 4}, .remote = {5, 0.25, 4}};
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial{.kind = CollectiveKind::all_to_all, .count = {100}};
    const double formula = operation_seconds(CollectiveKind::all_to_all, ranks, {100 * element_bytes}, waiting);
    EXPECT_NEAR(run(plans_of(trial, ranks), element_bytes, links).seconds, formula, tolerance(formula)) << ranks;
  }
}

/// Four ranks of a node each send one message to the other node; only their bytes share the link.
TEST(Price, OfALinkThatTheRanksOfANodeShare) {
  const Range whole{Memory::output, 0, 100};
  std::vector<Plan> plans;
  for (int rank = 0; rank < 4; ++rank) plans.push_back({{Send{rank + 4, whole}}, {}});
  for (int rank = 0; rank < 4; ++rank) plans.push_back({{Receive{rank, whole}}, {}});
  const ClusterShape shape{{0, 0, 0, 0, 1, 1, 1, 1}};
  const CostModel links{.local = {1, 0.001}, .remote = {10, 0.01, 4}};
  EXPECT_DOUBLE_EQ(run(plans, 1, links, shape).seconds, 10 + 4 * 100 * 0.01);
}

/// Halving-doubling on two nodes of four has two exchanges inside the node, and the smallest one between nodes.
TEST(Price, DistinguishesLinksInsideAndBetweenNodes) {
  constexpr double n = 4096;
  const CostModel cluster{.local = {1, 0.001}, .remote = {10, 0.01}};
  const ClusterShape shape{{0, 0, 0, 0, 1, 1, 1, 1}};
  const Trial trial{.count = {1024}, .in_place = true};
  const double seconds = run(plans_of(trial, 8, Algorithm::halving_doubling), element_bytes, cluster, shape).seconds;
  // In each exchange, the last of a node's ranks has waited for the others' bytes. In the all-gather phase, the first
  // ranks meanwhile continue inside the node, where the last ones find their partners' ports free.
  const double expected = 2 * ((1 + n / 2 * 0.001) + (1 + n / 4 * 0.001) + (10 + 4 * n / 8 * 0.01));
  EXPECT_NEAR(seconds, expected, 0.1 * expected);
}

TEST(Price, OfOnePortForEachDirection) {
  // A rank that sends to two others sends one message after the other.
  const Range whole{Memory::output, 0, 100};
  const std::vector<Plan> plans{
      {{Send{1, whole}, Send{2, whole}}, {}}, {{Receive{0, whole}}, {}}, {{Receive{0, whole}}, {}}};
  EXPECT_DOUBLE_EQ(run(plans, 1, model).seconds, 2 * (5 + 100 * 0.25));
  EXPECT_EQ(rounds(plans), 2);
}

TEST(Rounds, AreAsTheTextbookSays) {
  const Trial trial{.count = {64}, .in_place = true};
  EXPECT_EQ(rounds(plans_of(trial, 8, Algorithm::ring)), 14);
  EXPECT_EQ(rounds(plans_of(trial, 8, Algorithm::halving_doubling)), 6);
  EXPECT_EQ(rounds(plans_of(trial, 8, Algorithm::recursive_doubling)), 3);
  EXPECT_EQ(rounds(plans_of(trial, 7, Algorithm::recursive_doubling)), 4);
}

TEST(Traffic, IsTheSameForEveryRankOfARing) {
  const Trial trial{.count = {80}, .in_place = true};
  for (const Plan& plan : plans_of(trial, 8, Algorithm::ring)) {
    EXPECT_EQ(traffic(plan, element_bytes).messages, 14);
    EXPECT_EQ(traffic(plan, element_bytes).bytes, Bytes{14 * 10 * element_bytes});
  }
}

/// A rank between its parent and two children in one tree sends three halves of the buffer there, and one as a leaf of
/// the other tree.
TEST(Traffic, OfTheDoubleTreeIsBalanced) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const Trial trial{.count = {64}, .in_place = true};
    for (const Plan& plan : plans_of(trial, ranks, Algorithm::double_tree))
      EXPECT_LE(traffic(plan, 1).bytes.value, 2 * 64) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace lockstep::collectives
