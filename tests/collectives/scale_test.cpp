// SPDX-License-Identifier: Apache-2.0
// Compares the cost model and its formulas with the simulator, for many ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>

#include "collectives/choice/selection.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::int64_t bytes_of_element = 4;
constexpr Rates scale_rates{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .gamma_seconds_per_byte = 0.125};
constexpr CostModel equal_links{.local = {5, 0.25}, .remote = {5, 0.25}, .gamma_seconds_per_byte = 0.125};

std::vector<Plan> all_reduce_plans(Algorithm algorithm, int ranks, std::int64_t count) {
  return plans_of({.count = {count}, .in_place = true}, ranks, algorithm);
}

double scale_tolerance(double seconds) { return 1e-12 * seconds; }

struct EqualNodes {
  int nodes;
  int ranks_per_node;
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

ClusterShape shape_of(const EqualNodes& cluster) {
  ClusterShape shape;
  for (int rank = 0; rank < cluster.ranks(); ++rank) shape.node_of_rank.push_back(rank / cluster.ranks_per_node);
  return shape;
}

Selection on(const ClusterShape& shape, const CostModel& messages) {
  const Rates memory{.alpha_seconds = messages.local.alpha_seconds,
                     .beta_seconds_per_byte = messages.local.beta_seconds_per_byte,
                     .gamma_seconds_per_byte = messages.gamma_seconds_per_byte};
  return selection_on(shape, {.prices = {.messages = messages, .shared_memory = memory}});
}

constexpr Bytes whole{std::int64_t{1} << 40};  // larger than any buffer

/// Predicts the time for one block.
double predicted(Algorithm algorithm, int radix, const EqualNodes& cluster, std::int64_t count,
                 const CostModel& messages) {
  const Choice choice{algorithm, whole, 1, radix};
  return predicted_seconds(choice, CollectiveKind::all_reduce, {count * bytes_of_element},
                           on(shape_of(cluster), messages));
}

double simulated(Algorithm algorithm, int radix, const EqualNodes& cluster, std::int64_t count,
                 const CostModel& messages) {
  const ClusterShape shape = shape_of(cluster);
  const auto plans =
      plans_of({.count = {count}, .in_place = true}, cluster.ranks(), algorithm, shape, {Reach::direct}, radix);
  return run(plans, bytes_of_element, messages, shape).seconds;
}

TEST(PriceAtScale, OfDividingAllReducesIsTheFormula) {
  for (const Algorithm algorithm : {Algorithm::halving_doubling, Algorithm::recursive_doubling})
    for (const int ranks : {65, 100, 128, 255, 257, 512, 1000, 1023, 1024}) {
      const std::int64_t count = 1024;
      const double formula = all_reduce_seconds(algorithm, ranks, {count * bytes_of_element}, alike(scale_rates));
      const double price = run(all_reduce_plans(algorithm, ranks, count), bytes_of_element, equal_links).seconds;
      EXPECT_NEAR(price, formula, scale_tolerance(formula)) << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// A ring has O(p²) steps over all ranks, so only few rank counts are tested.
TEST(PriceAtScale, OfADividingRingIsTheFormula) {
  for (const int ranks : {100, 257, 1024}) {
    const std::int64_t count = 2 * ranks;
    const double formula = all_reduce_seconds(Algorithm::ring, ranks, {count * bytes_of_element}, alike(scale_rates));
    const double price = run(all_reduce_plans(Algorithm::ring, ranks, count), bytes_of_element, equal_links).seconds;
    EXPECT_NEAR(price, formula, scale_tolerance(formula)) << ranks << " ranks";
  }
}

TEST(PriceAtScale, OfTheDoubleTreeIsWithinItsBound) {
  for (const int ranks : {100, 128, 257, 512, 1000, 1024})
    for (const std::int64_t count : {2, 100000}) {
      const double bound =
          all_reduce_seconds(Algorithm::double_tree, ranks, {count * bytes_of_element}, alike(scale_rates));
      const double price =
          run(all_reduce_plans(Algorithm::double_tree, ranks, count), bytes_of_element, equal_links).seconds;
      EXPECT_LE(price, bound + scale_tolerance(bound)) << ranks << " ranks";
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
    *sum = {sum->peer, moved(sum->to, offset), moved(sum->own, offset), sum->first};
  return step;
}

/// Merges the plans of several blocks. Messages between two ranks are posted in the order of a plan, so the blocks
/// alternate step by step.
std::vector<Plan> in_flight_together(const std::vector<Plan>& block, int blocks, std::int64_t count) {
  std::vector<Plan> all(block.size());
  for (std::size_t rank = 0; rank < block.size(); ++rank)
    for (const Step& step : block[rank].steps)
      for (int index = 0; index < blocks; ++index) all[rank].steps.push_back(moved(step, index * count));
  return all;
}

double price_in_flight(Algorithm algorithm, int ranks, int blocks, std::int64_t count, const CostModel& model) {
  const std::vector<Plan> block = all_reduce_plans(algorithm, ranks, count);
  return run(in_flight_together(block, blocks, count), bytes_of_element, model).seconds;
}

TEST(PriceOfBlocks, IsTheirSumWhereAddingIsFree) {
  const CostModel free_sums{.local = {5, 0.25}, .remote = {5, 0.25}};
  const Rates free_rates{.alpha_seconds = 5, .beta_seconds_per_byte = 0.25};
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (const int ranks : {2, 8, 16, 64}) {
      constexpr std::int64_t count = 64;
      const double sum = 4 * all_reduce_seconds(algorithm, ranks, {count * bytes_of_element}, alike(free_rates));
      EXPECT_NEAR(price_in_flight(algorithm, ranks, 4, count, free_sums), sum, scale_tolerance(sum))
          << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// All blocks are in flight at once, and the prediction knows their number.
TEST(PriceOfBlocks, IsAboutThePrediction) {
  constexpr std::int64_t count = 64;
  constexpr CostModel on_the_wire{.local = {5, 0.25, 4}, .remote = {5, 0.25, 4}};
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (const int ranks : {2, 8, 16, 64})
      for (const CostModel& model : {equal_links, on_the_wire}) {
        const std::int64_t parts = algorithm == Algorithm::ring ? ranks : floor_log2(ranks) + 1;
        const Choice choice{algorithm, {count * bytes_of_element}, 4};
        const Bytes four_blocks{4 * parts * choice.segment.value};
        const double seconds = predicted_seconds(choice, CollectiveKind::all_reduce, four_blocks,
                                                 on({std::vector<int>(static_cast<std::size_t>(ranks))}, model));
        const double price = price_in_flight(algorithm, ranks, 4, parts * count, model);
        EXPECT_GE(price, 0.65 * seconds) << name(algorithm) << ", " << ranks << " ranks";
        EXPECT_LE(price, 1.3 * seconds) << name(algorithm) << ", " << ranks << " ranks";
      }
}

TEST(PriceOfBlocks, IsAtMostTheirSum) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::halving_doubling})
    for (const int ranks : {2, 8, 16, 64}) {
      constexpr std::int64_t count = 64;
      const double sum = 4 * all_reduce_seconds(algorithm, ranks, {count * bytes_of_element}, alike(scale_rates));
      const double price = price_in_flight(algorithm, ranks, 4, count, equal_links);
      EXPECT_LE(price, sum + scale_tolerance(sum)) << name(algorithm) << ", " << ranks << " ranks";
      EXPECT_GE(price, 0.5 * sum) << name(algorithm) << ", " << ranks << " ranks";
    }
}

/// The clusters have a cost of addition γ, a latency that is the wire's, or only bytes, whose limit is the links.
constexpr std::array clusters{
    CostModel{.local = {1, 0.03125}, .remote = {5, 0.25}, .gamma_seconds_per_byte = 0.125},
    CostModel{.local = {1, 0.03125}, .remote = {5, 0.25, 4}},
    CostModel{.local = {0, 0.03125}, .remote = {0, 0.25}},
};

/// Expects the simulated price to be `least` … `most` times the predicted one, in each of `clusters`.
void expect_near(Algorithm algorithm, std::span<const int> radices, const EqualNodes& nodes, double least,
                 double most) {
  const std::int64_t count = 64L * nodes.ranks();
  for (const CostModel& messages : clusters)
    for (const int radix : radices) {
      const double predicted_price = predicted(algorithm, radix, nodes, count, messages);
      const double price = simulated(algorithm, radix, nodes, count, messages);
      const std::string where = std::string(name(algorithm)) + ", radix " + std::to_string(radix) + ", " +
                                std::to_string(nodes.nodes) + " nodes of " + std::to_string(nodes.ranks_per_node) +
                                ", latency " + std::to_string(messages.remote.alpha_seconds) + ", of it the wire's " +
                                std::to_string(messages.remote.wire_seconds);
      EXPECT_GE(price, least * predicted_price - scale_tolerance(predicted_price)) << where;
      EXPECT_LE(price, most * predicted_price + scale_tolerance(predicted_price)) << where;
    }
}

constexpr std::array some_radices{2, 4, 8};
constexpr std::array no_radix{2};
constexpr std::array exchanges{Algorithm::halving_doubling, Algorithm::recursive_doubling};
constexpr std::array exchanges_of_lanes{Algorithm::hierarchical_halving_doubling,
                                        Algorithm::hierarchical_recursive_doubling};

/// A rank that finishes early continues while others still use the link, but the prediction waits for them.
TEST(PriceOnNodes, OfExchangesIsPredictedForPowersOfTwo) {
  for (const Algorithm algorithm : exchanges)
    for (const EqualNodes nodes : {EqualNodes{2, 8}, {4, 2}, {8, 8}})
      expect_near(algorithm, some_radices, nodes, 0.85, 1.25);
  for (const Algorithm algorithm : exchanges) {
    expect_near(algorithm, no_radix, {128, 8}, 0.85, 1.1);
    expect_near(algorithm, no_radix, {1024, 1}, 1, 1);
  }
}

TEST(PriceOnNodes, OfExchangesIsAboutThePredictionElsewhere) {
  for (const Algorithm algorithm : exchanges)
    for (const EqualNodes nodes : {EqualNodes{3, 2}, {3, 5}, {5, 8}, {6, 6}, {8, 12}})
      expect_near(algorithm, some_radices, nodes, 0.45, 1.4);
}

/// The prediction is exact if only the link takes time and the number of nodes is a power of two.
TEST(PriceOnNodes, OfLanesIsPredicted) {
  for (const Algorithm algorithm : exchanges_of_lanes) {
    for (const EqualNodes nodes : {EqualNodes{2, 8}, {8, 8}}) {
      expect_near(algorithm, some_radices, nodes, 0.85, 1);
      const CostModel bytes_only{.remote = {0, 0.25}};
      const std::int64_t count = 64L * nodes.ranks();
      const double price = simulated(algorithm, 4, nodes, count, bytes_only);
      EXPECT_NEAR(price, predicted(algorithm, 4, nodes, count, bytes_only), scale_tolerance(price));
    }
    for (const EqualNodes nodes : {EqualNodes{3, 5}, {5, 8}, {12, 6}})
      expect_near(algorithm, some_radices, nodes, 0.7, 1.2);
  }
  expect_near(Algorithm::hierarchical_halving_doubling, no_radix, {128, 8}, 0.85, 1);
  for (const EqualNodes nodes : {EqualNodes{2, 8}, {3, 5}, {12, 6}})
    expect_near(Algorithm::hierarchical_ring, no_radix, nodes, 0.85, 1);
}

/// A ring's latencies inside nodes are priced like those between nodes, and in a tree ports are idle.
TEST(PriceOnNodes, OfRingsAndTreesIsBounded) {
  for (const EqualNodes nodes : {EqualNodes{2, 8}, {3, 5}, {12, 6}}) {
    expect_near(Algorithm::ring, no_radix, nodes, 0.75, 1);
    expect_near(Algorithm::double_tree, no_radix, nodes, 0.2, 1);
    expect_near(Algorithm::hierarchical_double_tree, no_radix, nodes, 0.4, 1);
  }
}

/// Calls visit(cluster, blocks in flight, bytes) for many cases.
template <typename Visit>
void for_each_case(const Visit& visit) {
  for (const EqualNodes nodes :
       {EqualNodes{1, 6}, {2, 1}, {3, 1}, {6, 1}, {16, 1}, {24, 1}, {256, 1}, {8, 8}, {12, 6}, {125, 6}})
    for (const int in_flight : {4, SelectionTable::max_blocks_in_flight})
      for (std::int64_t bytes = 4; bytes <= 256 << 20; bytes *= 4) visit(nodes, in_flight, Bytes{bytes});
}

/// An algorithm earns its row: on some cluster, at some size, it is the fastest by messages, by the cost model. The
/// test prints where it gains most, and the next best there.
TEST(PriceOnNodes, MakesEachAlgorithmForSpeedTheFastestSomewhere) {
  struct Win {
    double gain = 1;  ///< seconds of the next best divided by its own
    std::string where;
  };
  std::map<Algorithm, Win> wins;
  for_each_case([&](const EqualNodes& nodes, int in_flight, Bytes bytes) {
    Selection selection = on(shape_of(nodes), default_prices().messages);
    selection.shared_memory = false;
    selection.untuned.blocks_in_flight = in_flight;
    const auto ranked = priced_candidates(selection, CollectiveKind::all_reduce, bytes, SelectedBy::tuning);
    const PricedChoice& best = ranked.front();
    const auto next = std::find_if(ranked.begin(), ranked.end(),
                                   [&](const PricedChoice& p) { return p.choice.algorithm != best.choice.algorithm; });
    Win& win = wins[best.choice.algorithm];
    if (next->predicted_seconds <= win.gain * best.predicted_seconds) return;
    std::ostringstream where;
    where << name(best.choice.algorithm) << ": " << nodes.nodes << " nodes of " << nodes.ranks_per_node << ", "
          << bytes.value << " bytes, " << in_flight << " blocks in flight: " << best.predicted_seconds * 1e6 << " us; "
          << name(next->choice.algorithm) << ' ' << next->predicted_seconds * 1e6 << " us";
    win = {next->predicted_seconds / best.predicted_seconds, where.str()};
  });
  for (const auto& [algorithm, win] : wins) std::cout << win.where << '\n';
  for (const Algorithm algorithm : message_algorithms)
    EXPECT_EQ(wins[algorithm].gain > 1, row_of(algorithm).selected_by != SelectedBy::name) << name(algorithm);
}

/// This is the purpose of the model: its fastest algorithm is close to the fastest in the simulation.
TEST(PriceOnNodes, PutsAlgorithmsInTheirOrder) {
  for (const EqualNodes nodes : {EqualNodes{16, 1}, {2, 8}, {8, 8}, {5, 8}})
    for (const std::int64_t count : {16, 4096, 1 << 18}) {
      const CostModel messages{
          .local = {0.7e-6, 0.1e-9}, .remote = {5e-6, 0.32e-9, 4.5e-6}, .gamma_seconds_per_byte = 0.15e-9};
      Selection selection = on(shape_of(nodes), messages);
      selection.untuned.segment = whole;
      const auto ranked = priced_candidates(selection, CollectiveKind::all_reduce, {count * bytes_of_element});
      double best = std::numeric_limits<double>::infinity();
      for (const PricedChoice& p : ranked) {
        best = std::min(best, simulated(p.choice.algorithm, p.choice.radix, nodes, count, messages));
      }
      const Choice& first = ranked.front().choice;
      EXPECT_LE(simulated(first.algorithm, first.radix, nodes, count, messages), 1.3 * best)
          << name(first.algorithm) << ", " << nodes.nodes << " nodes of " << nodes.ranks_per_node << ", " << count;
    }
}

}  // namespace
}  // namespace lockstep::collectives
