// SPDX-License-Identifier: Apache-2.0
// Tests collectives of ranks that share memory, and hierarchical ones.
#include "collectives/algorithms/node.hpp"

#include <gtest/gtest.h>

#include <set>

#include "collectives/algorithms/by_cache.hpp"
#include "collectives/algorithms/operations.hpp"
#include "collectives/choice/selection.hpp"
#include "collectives/proof/timeline.hpp"
#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::collectives {
namespace {

/// The reach is the same for all ranks, or alternates.
const std::vector<Reaches> every_reach = {
    {Reach::direct}, {Reach::staged}, {Reach::direct, Reach::staged}, {Reach::pulled}};
const std::vector<Reaches> by_slices = {{Reach::direct}, {Reach::staged}, {Reach::staged, Reach::direct}};

/// Proves an all-reduce and compares its order of addition with the documented one.
void prove(const Trial& trial, int ranks, Algorithm algorithm, const ClusterShape& shape, const Reaches& reach,
           int ranks_per_cache = 0) {
  SCOPED_TRACE(testing::Message() << name(algorithm) << ", " << ranks << " ranks on " << shape.nodes() << " nodes, "
                                  << trial.count.value << " elements, reach " << static_cast<int>(reach.front()));
  Simulation simulation = simulate(plans_of(trial, ranks, algorithm, shape, reach, 2, ranks_per_cache), trial);
  ASSERT_TRUE(is_right(simulation));
  const auto brought = contributions(simulation.expressions, trial, ranks);
  for (const ResultPiece& piece : simulation.results.front())
    for (const std::int64_t element : {piece.offset, piece.offset + piece.count - 1}) {
      const Expression claimed =
          all_reduce_order(algorithm, simulation.expressions, brought, trial.count, element, shape, ranks_per_cache);
      ASSERT_EQ(simulation.expressions.to_string(piece.value), simulation.expressions.to_string(claimed));
    }
}

TEST(SharedMemoryAllReduce, IsRightForAllRankCountsAndCounts) {
  for (const Reaches& reach : every_reach)
    for (const int ranks : ranks_for(reach, 64))
      for (const std::int64_t count : counts_for(ranks))
        prove({.count = {count}, .in_place = true}, ranks, Algorithm::shared_memory, {}, reach);
}

TEST(SharedMemoryAllReduce, IsRightOutOfPlace) {
  for (const Reaches& reach : every_reach)
    for (int ranks = 1; ranks <= 17; ++ranks)
      for (const std::int64_t count : counts_for(ranks))
        prove({.count = {count}, .in_place = false}, ranks, Algorithm::shared_memory, {}, reach);
}

TEST(SharedMemoryAllReduce, AddsFromLeftToRight) {
  const Trial trial{.count = {5}, .in_place = true};
  for (const Reaches& reach : every_reach) {
    const Simulation simulation = simulate(plans_of(trial, 4, Algorithm::shared_memory, {}, reach), trial);
    ASSERT_TRUE(is_right(simulation));
    for (const ResultPiece& piece : simulation.results.back())
      EXPECT_EQ(simulation.expressions.to_string(piece.value), "((0+1)+2)+3");
  }
}

TEST(SharedMemory, MovesDataForAllRankCountsAndCounts) {
  for (const CollectiveKind kind :
       {CollectiveKind::broadcast, CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::reduce,
        CollectiveKind::all_to_all, CollectiveKind::gather, CollectiveKind::scatter})
    for (const Reaches& reach : by_slices)
      for (const bool in_place : {true, false})
        for (const int ranks : ranks_for(reach, in_place ? 64 : 17))
          for (const std::int64_t count : counts_for(ranks)) {
            const Trial trial{.kind = kind, .count = {count}, .root = {ranks / 2}, .in_place = in_place};
            ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks, Algorithm::shared_memory, {}, reach), trial)))
                << name(kind) << ", " << ranks << " ranks, " << count << " elements";
          }
}

TEST(SharedMemory, MovesPartsOfDifferentLengths) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather_v, CollectiveKind::reduce_scatter_v})
    for (const Reaches& reach : by_slices)
      for (const bool in_place : {true, false})
        for (int ranks = 1; ranks <= 17; ++ranks)
          for (int pattern = 0; pattern <= 4; ++pattern) {
            const Trial trial = with_parts({.kind = kind, .count = {10}, .in_place = in_place}, ranks, pattern);
            ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks, Algorithm::shared_memory, {}, reach), trial)))
                << name(kind) << ", " << ranks << " ranks, pattern " << pattern;
          }
}

TEST(SharedMemory, ReducesToEveryRootFromLeftToRight) {
  for (const Reaches& reach : by_slices)
    for (const bool in_place : {true, false})
      for (int ranks = 1; ranks <= 9; ++ranks)
        for (int root = 0; root < ranks; ++root) {
          const Trial trial{
              .kind = CollectiveKind::reduce, .count = {2 * ranks + 1}, .root = {root}, .in_place = in_place};
          Simulation simulation = simulate(plans_of(trial, ranks, Algorithm::shared_memory, {}, reach), trial);
          ASSERT_TRUE(is_right(simulation)) << ranks << " ranks, root " << root;
          const auto brought = contributions(simulation.expressions, trial, ranks);
          for (const ResultPiece& piece : simulation.results[static_cast<std::size_t>(root)])
            EXPECT_EQ(piece.value, simulation.expressions.left_fold(brought));
        }
}

TEST(SharedMemory, ScansFromLeftToRight) {
  for (const CollectiveKind kind : {CollectiveKind::scan, CollectiveKind::exclusive_scan})
    for (const Reaches& reach : by_slices)
      for (const bool in_place : {true, false})
        for (int ranks = 1; ranks <= 17; ++ranks)
          for (const std::int64_t count : counts_for(ranks)) {
            const Trial trial{.kind = kind, .count = {count}, .in_place = in_place};
            Simulation simulation = simulate(plans_of(trial, ranks, Algorithm::shared_memory, {}, reach), trial);
            ASSERT_TRUE(is_right(simulation)) << name(kind) << ", " << ranks << " ranks, " << count << " elements";
            const auto brought = contributions(simulation.expressions, trial, ranks);
            for (int rank = 1; rank < ranks; ++rank) {
              const int summed = rank + (kind == CollectiveKind::scan ? 1 : 0);
              for (const ResultPiece& piece : simulation.results[static_cast<std::size_t>(rank)])
                EXPECT_EQ(piece.value,
                          simulation.expressions.left_fold(std::span(brought).first(static_cast<std::size_t>(summed))));
            }
          }
}

TEST(SharedMemory, BarrierEndsAfterAllHaveBegun) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial{.kind = CollectiveKind::barrier};
    ASSERT_TRUE(is_right(simulate(plans_of(trial, ranks, Algorithm::shared_memory), trial))) << ranks << " ranks";
  }
}

/// Returns several successive all-reduces in place, which use `areas` staging areas in turn.
Plan succession(Rank me, int ranks, Count count, int operations, int areas) {
  Plan all;
  all.staging = {areas * count.value};
  const Range own{Memory::output, 0, count.value};
  for (int k = 0; k < operations; ++k) {
    const std::int64_t area = k % areas * count.value;
    for (Step step :
         pull_all_reduce(me, {.ranks = ranks, .count = count, .own = {.in_place = true}}, Algorithm::shared_memory)
             .steps) {
      if (auto* copy = std::get_if<Copy>(&step)) *copy = {{Memory::staging, area, count.value}, own};
      if (auto* combine = std::get_if<Combine>(&step))
        for (NodeRange& from : combine->from) {
          if (from.rank == self) from.range = own;
          if (from.rank != self) from.range.offset += area;
        }
      if (auto* publish = std::get_if<Publish>(&step)) publish->phase += k;
      if (auto* await = std::get_if<Await>(&step)) await->phase += k;
      all.steps.push_back(step);
    }
  }
  return all;
}

FaultKind fault_of_succession(int ranks, int areas) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(succession({rank}, ranks, {3}, 5, areas));
  const Simulation simulation = simulate(plans, {.count = {3}, .in_place = true});
  return simulation.fault ? simulation.fault->kind : FaultKind::malformed;
}

TEST(PullAllReduce, NeedsTwoStagingAreasInSuccessionAndNoMore) {
  for (const int ranks : {2, 3, 4, 8}) {
    // The sum of sums contains every leaf more than once; errors in the plans themselves are found before.
    EXPECT_EQ(fault_of_succession(ranks, 2), FaultKind::doubled);
    EXPECT_EQ(fault_of_succession(ranks, 1), FaultKind::race);
  }
}

TEST(HierarchicalAllReduce, IsRightOnEqualAndUnequalNodes) {
  for (const Algorithm algorithm : testing_support::hierarchical_algorithms())
    for (const Reaches& reach : by_slices)
      for (const ClusterShape& shape : equal_and_unequal_nodes())
        for (const std::int64_t count : counts_for(shape.ranks()))
          for (const bool in_place : {true, false})
            prove({.count = {count}, .in_place = in_place}, shape.ranks(), algorithm, shape, reach);
}

TEST(HierarchicalAllReduce, IsRightOnManyNodes) {
  for (int nodes = 1; nodes <= 16; ++nodes)
    for (const int ranks_per_node : {1, 2, 3, 4}) {
      ClusterShape shape;
      for (int rank = 0; rank < nodes * ranks_per_node; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
      prove({.count = {1009}, .in_place = true}, shape.ranks(), Algorithm::hierarchical_ring, shape, {Reach::direct});
    }
}

TEST(TreeOrderOfNodes, IsCanonicalOnOneNodeForAllRankCountsAndCounts) {
  for (const Reaches& reach : every_reach)
    for (const int ranks : ranks_for(reach, 64))
      for (const std::int64_t count : counts_for(ranks))
        prove({.count = {count}, .in_place = ranks % 2 == 0}, ranks, Algorithm::hierarchical_tree_order, {}, reach);
}

TEST(ByCache, IsCanonicalForAllRankCountsAndCaches) {
  for (const Reaches& reach : every_reach)
    for (const int ranks : ranks_for(reach, 64))
      for (const int ranks_per_cache : {2, 3, 4, 8, 16})
        for (const std::int64_t count : {std::int64_t{1}, std::int64_t{ranks + 1}, std::int64_t{1009}})
          prove({.count = {count}, .in_place = (ranks / ranks_per_cache) % 2 == 0}, ranks,
                Algorithm::hierarchical_tree_order, {}, reach, ranks_per_cache);
}

/// Returns nodes of equally many ranks, which are numbered node by node or go round.
ClusterShape equal_nodes(int nodes, int ranks_per_node, bool round_robin) {
  ClusterShape shape;
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank)
    shape.node_of_rank.push_back(round_robin ? rank % nodes : rank / ranks_per_node);
  return shape;
}

TEST(ByCache, IsRightOnSeveralNodes) {
  for (const Algorithm algorithm : testing_support::hierarchical_algorithms())
    for (const Reaches& reach : by_slices)
      for (const int nodes : {2, 3, 4})
        for (const int ranks_per_node : {4, 6, 8})
          for (const int ranks_per_cache : {2, 4})
            for (const std::int64_t count : {1, 7, 1009}) {
              const bool round_robin = algorithm != Algorithm::hierarchical_tree_order && nodes == 3;
              const ClusterShape shape = equal_nodes(nodes, ranks_per_node, round_robin);
              if (algorithm == Algorithm::hierarchical_tree_order && !keeps_canonical_order(shape)) continue;
              const int ranks = shape.ranks();
              prove({.count = {count}, .in_place = count % 2 == 0}, ranks, algorithm, shape, reach, ranks_per_cache);
              EXPECT_EQ(adds_by_cache({.ranks = ranks, .shape = shape, .ranks_per_cache = ranks_per_cache}, algorithm),
                        ranks_per_node % ranks_per_cache == 0 && ranks_per_node > ranks_per_cache);
            }
}

TEST(ByCache, IsNotDoneOnUnequalNodes) {
  for (const ClusterShape& shape : {ClusterShape{{0, 0, 0, 0, 1, 1}}, ClusterShape{{0, 0, 1, 1, 1, 1}}}) {
    EXPECT_FALSE(adds_by_cache({.ranks = 6, .shape = shape, .ranks_per_cache = 2}, Algorithm::hierarchical_ring));
    prove({.count = {7}, .in_place = true}, 6, Algorithm::hierarchical_ring, shape, {Reach::direct}, 2);
  }
}

TEST(ByCache, DealsWithTheRanksOfItsCacheAndOneOfEachOther) {
  for (const Reach reach : {Reach::pulled, Reach::staged, Reach::direct})
    for (const int me : {0, 13, 127}) {
      const Plan plan = make_plan(
          {me}, {.ranks = 128, .count = {1024}, .own = {.in_place = true}, .reach = reach, .ranks_per_cache = 8},
          Algorithm::hierarchical_tree_order);
      std::set<int> others;
      for (const Step& step : plan.steps) {
        const Accesses touched(step);
        for (const auto& ranges : {touched.reads(), touched.writes()})
          for (const NodeRange& range : ranges) others.insert(range.rank);
        if (const auto* await = std::get_if<Await>(&step)) others.insert(await->peers.begin(), await->peers.end());
      }
      others.erase(self);
      EXPECT_EQ(others.size(), 7U + 15);
    }
}

TEST(TreeOrderOfNodes, IsCanonicalWhereTheirRanksAreSubtrees) {
  for (const int ranks_per_node : {1, 2, 4, 8})
    for (int ranks = ranks_per_node + 1; ranks <= 5 * ranks_per_node; ++ranks) {
      ClusterShape shape;
      for (int rank = 0; rank < ranks; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
      ASSERT_TRUE(keeps_canonical_order(shape));
      for (const Reaches& reach : by_slices)
        for (const std::int64_t count : {1, 7, 1009})
          prove({.count = {count}, .in_place = true}, ranks, Algorithm::hierarchical_tree_order, shape, reach);
    }
}

TEST(TreeOrderOfNodes, IsRefusedWhereTheirRanksAreNot) {
  for (const ClusterShape& shape : {ClusterShape{{0, 0, 0, 1, 1, 1}}, ClusterShape{{0, 1, 0, 1}}}) {
    EXPECT_FALSE(keeps_canonical_order(shape));
    EXPECT_THROW((void)make_schedule({0}, {.ranks = shape.ranks(), .count = {8}, .shape = shape},
                                     Algorithm::hierarchical_tree_order, {8}),
                 Error);
  }
}

TEST(HierarchicalAllReduce, HasAsManyLanesAsTheSmallestNodeHasRanks) {
  EXPECT_EQ(lanes({{0, 0, 0, 1, 1}}), 2);
  EXPECT_EQ(lanes({{0, 0, 0, 1}}), 1);
  const Plan plan = make_plan({2}, {.ranks = 5, .count = {10}, .own = {.in_place = true}, .shape = {{0, 0, 0, 1, 1}}},
                              Algorithm::hierarchical_ring);
  EXPECT_EQ(traffic(plan, 4).messages, 0) << "the third rank of the larger node has no lane";
}

TEST(Price, OfSharedMemoryIsTheFormula) {
  constexpr Rates rates{
      .alpha_seconds = 5, .beta_seconds_per_byte = 0.25, .gamma_seconds_per_byte = 0.125, .peer_seconds = 3};
  constexpr CostModel model{.local = {5, 0.25, 0, 3}, .remote = {500, 25}, .gamma_seconds_per_byte = 0.125};
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Trial trial{.count = {64 * ranks}, .in_place = true};
    const Bytes bytes{4 * trial.count.value};
    const auto price = [&](Reach reach) {
      return run(plans_of(trial, ranks, Algorithm::shared_memory, {}, {reach}), 4, model).seconds;
    };
    EXPECT_DOUBLE_EQ(price(Reach::direct), shared_memory_all_reduce_seconds(ranks, bytes, rates)) << ranks;
    EXPECT_DOUBLE_EQ(price(Reach::pulled), pull_all_reduce_seconds(ranks, bytes, rates)) << ranks;
    for (const int ranks_per_cache : {2, 4, 8}) {
      if (ranks % ranks_per_cache != 0 || ranks == ranks_per_cache) continue;
      const auto by_cache = [&](Reach reach) {
        const auto plans = plans_of(trial, ranks, Algorithm::hierarchical_tree_order, {}, {reach}, 2, ranks_per_cache);
        return run(plans, 4, model).seconds;
      };
      EXPECT_DOUBLE_EQ(by_cache(Reach::pulled), pull_by_cache_seconds(ranks, ranks_per_cache, bytes, rates));
      EXPECT_DOUBLE_EQ(by_cache(Reach::direct), slices_by_cache_seconds(ranks, ranks_per_cache, bytes, rates))
          << ranks << " ranks, " << ranks_per_cache << " of each cache";
    }
  }
}

TEST(Price, OfTheOtherOperationsInSharedMemoryIsAsStated) {
  constexpr CostModel model{.local = {5, 0.25}, .remote = {500, 25}, .gamma_seconds_per_byte = 0.125};
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const Count count{64 * ranks};
    const double n = 4.0 * static_cast<double>(count.value);
    const auto price = [&](CollectiveKind kind) {
      const Trial trial{.kind = kind, .count = count};
      return run(plans_of(trial, ranks, Algorithm::shared_memory), 4, model).seconds;
    };
    EXPECT_DOUBLE_EQ(price(CollectiveKind::reduce), 2 * 5 + n * 0.25 + (ranks - 1) * n / ranks * 0.125) << ranks;
    EXPECT_DOUBLE_EQ(price(CollectiveKind::all_to_all), 2 * 5 + (ranks - 1) * n * 0.25) << ranks;
    EXPECT_DOUBLE_EQ(price(CollectiveKind::gather), 2 * 5 + n * 0.25) << ranks;
    EXPECT_DOUBLE_EQ(price(CollectiveKind::scatter), 2 * 5 + n * 0.25) << ranks;
  }
}

}  // namespace
}  // namespace lockstep::collectives
