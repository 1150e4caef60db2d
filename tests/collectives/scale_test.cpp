// SPDX-License-Identifier: Apache-2.0
// The closed formulas at scale, against the simulator.
#include <gtest/gtest.h>

#include <map>

#include "collectives/choice/cluster_cost.hpp"
#include "collectives/choice/cost.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::int64_t element_bytes = 4;
constexpr Rates rates{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .gamma_seconds_per_byte = 0.125};
constexpr CostModel alike{.local = {5, 0.25}, .remote = {5, 0.25}, .gamma_seconds_per_byte = 0.125};
constexpr CostModel cluster_model{.local = {1, 0.03125}, .remote = {5, 0.25}, .gamma_seconds_per_byte = 0.125};

std::vector<Plan> all_reduce_plans(Algorithm algorithm, int ranks, std::int64_t count) {
  return plans_of({.count = {count}, .in_place = true}, ranks, algorithm);
}

double tolerance(double seconds) { return 1e-12 * seconds; }

ClusterShape shape_of(const EqualNodes& cluster) {
  ClusterShape shape;
  for (int rank = 0; rank < cluster.ranks(); ++rank) shape.node_of_rank.push_back(rank / cluster.ranks_per_node);
  return shape;
}

TEST(PriceAtScale, OfDividingAllReducesIsTheFormula) {
  for (const Algorithm algorithm : {Algorithm::halving_doubling, Algorithm::recursive_doubling})
    for (const int ranks : {65, 100, 128, 255, 257, 512, 1000, 1023, 1024}) {
      const std::int64_t count = 1024;
      const double formula = all_reduce_seconds(algorithm, ranks, {count * element_bytes}, rates);
      const double price = run(all_reduce_plans(algorithm, ranks, count), element_bytes, alike).seconds;
      EXPECT_NEAR(price, formula, tolerance(formula)) << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// A ring has O(p²) steps over all ranks: few rank counts.
TEST(PriceAtScale, OfADividingRingIsTheFormula) {
  for (const int ranks : {100, 257, 1024}) {
    const std::int64_t count = 2 * ranks;
    const double formula = ring_all_reduce_seconds(ranks, {count * element_bytes}, rates);
    const double price = run(all_reduce_plans(Algorithm::ring, ranks, count), element_bytes, alike).seconds;
    EXPECT_NEAR(price, formula, tolerance(formula)) << ranks << " ranks";
  }
}

TEST(PriceAtScale, OfTheDoubleTreeIsWithinItsBound) {
  for (const int ranks : {100, 128, 257, 512, 1000, 1024})
    for (const std::int64_t count : {2, 100000}) {
      const double bound = double_tree_all_reduce_seconds(ranks, {count * element_bytes}, rates);
      const double price = run(all_reduce_plans(Algorithm::double_tree, ranks, count), element_bytes, alike).seconds;
      EXPECT_LE(price, bound + tolerance(bound)) << ranks << " ranks";
      EXPECT_GE(price, 0.4 * bound) << ranks << " ranks";
    }
}

Range moved(Range range, std::int64_t offset) {
  range.offset += offset;
  return range;
}

Step moved(Step step, std::int64_t offset) {
  if (auto* send = std::get_if<Send>(&step)) send->from = moved(send->from, offset);
  if (auto* receive = std::get_if<Receive>(&step)) receive->to = moved(receive->to, offset);
  if (auto* sum = std::get_if<ReceiveReduce>(&step))
    *sum = {sum->peer, moved(sum->to, offset), moved(sum->own, offset)};
  return step;
}

/// Several blocks' plans as one. Messages between two ranks are posted in the order of a plan, so the blocks take turns
/// step by step.
std::vector<Plan> in_flight_together(const std::vector<Plan>& block, int blocks, std::int64_t count) {
  std::vector<Plan> all(block.size());
  for (std::size_t rank = 0; rank < block.size(); ++rank)
    for (const Step& step : block[rank].steps)
      for (int index = 0; index < blocks; ++index) all[rank].steps.push_back(moved(step, index * count));
  return all;
}

double price_in_flight(Algorithm algorithm, int ranks, int blocks, std::int64_t count, const CostModel& model) {
  const std::vector<Plan> block = all_reduce_plans(algorithm, ranks, count);
  return run(in_flight_together(block, blocks, count), element_bytes, model).seconds;
}

TEST(PriceOfBlocks, IsTheirSumWhereAddingIsFree) {
  const CostModel free_sums{.local = {5, 0.25}, .remote = {5, 0.25}};
  const Rates free_rates{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25};
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (const int ranks : {2, 8, 16, 64}) {
      constexpr std::int64_t count = 64;
      const double sum = 4 * all_reduce_seconds(algorithm, ranks, {count * element_bytes}, free_rates);
      EXPECT_NEAR(price_in_flight(algorithm, ranks, 4, count, free_sums), sum, tolerance(sum))
          << name(algorithm) << ", " << ranks << " ranks";
    }
}

TEST(PriceOfBlocks, IsAtMostTheirSum) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (const int ranks : {2, 8, 16, 64}) {
      constexpr std::int64_t count = 64;
      const double sum = 4 * all_reduce_seconds(algorithm, ranks, {count * element_bytes}, rates);
      const double price = price_in_flight(algorithm, ranks, 4, count, alike);
      EXPECT_LE(price, sum + tolerance(sum)) << name(algorithm) << ", " << ranks << " ranks";
      EXPECT_GE(price, 0.5 * sum) << name(algorithm) << ", " << ranks << " ranks";
    }
}

TEST(PriceOnNodes, OfExchangesIsTheFormula) {
  for (const Algorithm algorithm : {Algorithm::halving_doubling, Algorithm::recursive_doubling})
    for (const EqualNodes cluster : {EqualNodes{1, 8}, {2, 8}, {16, 1}, {16, 8}, {128, 8}, {512, 2}}) {
      constexpr std::int64_t count = 2048;
      const double formula = flat_all_reduce_seconds(algorithm, cluster, {count * element_bytes}, cluster_model);
      const double price =
          run(all_reduce_plans(algorithm, cluster.ranks(), count), element_bytes, cluster_model, shape_of(cluster))
              .seconds;
      EXPECT_NEAR(price, formula, tolerance(formula)) << name(algorithm) << ", " << cluster.nodes << " nodes";
    }
}

TEST(PriceOnNodes, IsAboutTheFormulaElsewhere) {
  const std::map<Algorithm, double> most = {{Algorithm::ring, 1},
                                            {Algorithm::double_tree, 1},
                                            {Algorithm::halving_doubling, 1.3},
                                            {Algorithm::recursive_doubling, 1.3}};
  for (const auto& [algorithm, factor] : most)
    for (const EqualNodes cluster : {EqualNodes{3, 2}, {3, 5}, {5, 8}, {12, 6}, {8, 12}}) {
      const std::int64_t count = 64 * 120;
      const double formula = flat_all_reduce_seconds(algorithm, cluster, {count * element_bytes}, cluster_model);
      const double price =
          run(all_reduce_plans(algorithm, cluster.ranks(), count), element_bytes, cluster_model, shape_of(cluster))
              .seconds;
      EXPECT_LE(price, factor * formula) << name(algorithm) << ", " << cluster.nodes << " nodes";
      EXPECT_GE(price, 0.3 * formula) << name(algorithm) << ", " << cluster.nodes << " nodes";
    }
}

double hierarchical_price(Algorithm algorithm, const EqualNodes& cluster, std::int64_t count) {
  const ClusterShape shape = shape_of(cluster);
  const auto plans = plans_of({.count = {count}, .in_place = true}, cluster.ranks(), algorithm, shape);
  return run(plans, element_bytes, cluster_model, shape).seconds;
}

TEST(PriceOnNodes, OfAHierarchyIsTheFormula) {
  for (const Algorithm algorithm : {Algorithm::hierarchical_ring, Algorithm::hierarchical_halving_doubling,
                                    Algorithm::hierarchical_recursive_doubling})
    for (const EqualNodes cluster : {EqualNodes{1, 8}, {2, 8}, {16, 1}, {12, 6}, {5, 3}, {100, 4}, {128, 8}}) {
      const std::int64_t count = 64L * cluster.ranks();
      const double formula =
          hierarchical_all_reduce_seconds(across_nodes(algorithm), cluster, {count * element_bytes}, cluster_model);
      EXPECT_NEAR(hierarchical_price(algorithm, cluster, count), formula, tolerance(formula))
          << name(algorithm) << ", " << cluster.nodes << " nodes of " << cluster.ranks_per_node;
    }
}

TEST(PriceOnNodes, OfAHierarchyOfTreesIsBoundedByTheFormula) {
  for (const EqualNodes cluster : {EqualNodes{2, 8}, {12, 6}, {128, 8}}) {
    const std::int64_t count = 64L * cluster.ranks();
    const double bound =
        hierarchical_all_reduce_seconds(Algorithm::double_tree, cluster, {count * element_bytes}, cluster_model);
    const double price = hierarchical_price(Algorithm::hierarchical_double_tree, cluster, count);
    EXPECT_LE(price, bound + tolerance(bound)) << cluster.nodes << " nodes";
    EXPECT_GE(price, 0.4 * bound) << cluster.nodes << " nodes";
  }
}

}  // namespace
}  // namespace lockstep::collectives
