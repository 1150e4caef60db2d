// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/leaf_tree.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "collectives/plan/expression.hpp"
#include "collectives/proof/simulator.hpp"
#include "collectives/trials.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

/// Tests all-reduces with more leaves than ranks. For every number of ranks, nodes and leaves, and every way to access
/// the data, they add in the canonical order over the leaves.
namespace lockstep::collectives {
namespace {

constexpr int most_leaves = 16;

/// In a trial, the leaves of a rank are the sums that it contributes.
Trial trial_of(const LeafShares& leaves, int ranks, std::int64_t count, bool in_place) {
  Trial trial{.count = {count}, .in_place = in_place};
  for (const auto& nodes : shares_of_ranks(leaves, ranks)) trial.leaves.push_back(static_cast<int>(nodes.size()));
  return trial;
}

std::vector<Plan> plans_of_leaves(const Trial& trial, const LeafShares& leaves, Algorithm algorithm,
                                  const ClusterShape& shape, const Reaches& reaches, int ranks_per_cache = 0) {
  const auto ranks = static_cast<int>(trial.leaves.size());
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(
        make_plan({rank},
                  {.ranks = ranks,
                   .count = trial.count,
                   .own = {.leaves = trial.leaves[static_cast<std::size_t>(rank)], .in_place = trial.in_place},
                   .shape = shape,
                   .reach = reaches[static_cast<std::size_t>(rank) % reaches.size()],
                   .ranks_per_cache = ranks_per_cache,
                   .leaves = leaves},
                  algorithm));
  return plans;
}

/// Returns the canonical order, with the ranks' sums in the places of the nodes.
Expression expected(Expressions& expressions, const LeafShares& leaves, int ranks) {
  std::vector<Expression> brought;
  std::vector<int> widths;
  for (const auto& nodes : shares_of_ranks(leaves, ranks))
    for (const LeafNode& node : nodes) {
      brought.push_back(expressions.leaf(static_cast<int>(brought.size())));
      widths.push_back(node.leaves);
    }
  return canonical_node_fold(
      widths, [&](int i) { return brought[static_cast<std::size_t>(i)]; },
      [&](Expression a, Expression b) { return expressions.combine(a, b); });
}

void expect_canonical(const LeafShares& leaves, int ranks, std::int64_t count, bool in_place, Algorithm algorithm,
                      const ClusterShape& shape, const Reaches& reaches, int ranks_per_cache = 0) {
  std::string counts;
  for (const int own : leaves.counts(ranks)) counts += std::to_string(own) + " ";
  SCOPED_TRACE(counts + "leaves on " + std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements" +
               (in_place ? ", in place" : "") + ", nodes " + std::to_string(shape.nodes()));
  const Trial trial = trial_of(leaves, ranks, count, in_place);
  Simulation simulation = simulate(plans_of_leaves(trial, leaves, algorithm, shape, reaches, ranks_per_cache), trial);
  ASSERT_TRUE(is_right(simulation));
  const Expression order = expected(simulation.expressions, leaves, ranks);
  for (const auto& result : simulation.results)
    for (const ResultPiece& piece : result)
      ASSERT_EQ(piece.value, order) << simulation.expressions.to_string(piece.value) << " is not "
                                    << simulation.expressions.to_string(order);
}

TEST(TreeNodes, AreTheFewestThatHaveAShare) {
  using Nodes = std::vector<LeafNode>;
  EXPECT_EQ(tree_nodes(8, Share{0, 8}), (Nodes{{0, 8}}));
  EXPECT_EQ(tree_nodes(8, Share{3, 3}), (Nodes{{3, 1}, {4, 2}}));
  EXPECT_EQ(tree_nodes(8, Share{1, 6}), (Nodes{{1, 1}, {2, 2}, {4, 2}, {6, 1}}));
  EXPECT_EQ(tree_nodes(6, Share{4, 2}), (Nodes{{4, 2}}));
  EXPECT_EQ(tree_nodes(5, Share{2, 0}), Nodes{});
}

/// Adding a rank's leaves one by one gives its nodes, and adds within each as the tree does.
TEST(TreeNodes, OfEachBeginningOfAShareAreReachedByAddingNeighbors) {
  for (int leaves = 1; leaves <= most_leaves; ++leaves)
    for (int first = 0; first < leaves; ++first)
      for (int count = 1; first + count <= leaves; ++count) {
        Expressions e;
        std::vector<Expression> stack;
        for (int leaf = first; leaf < first + count; ++leaf) {
          stack.push_back(e.leaf(leaf));
          while (stack.size() > tree_nodes(leaves, Share{first, leaf + 1 - first}).size()) {
            const Expression upper = stack.back();
            stack.pop_back();
            stack.back() = e.combine(stack.back(), upper);
          }
        }
        const auto nodes = tree_nodes(leaves, Share{first, count});
        ASSERT_EQ(stack.size(), nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i)
          EXPECT_EQ(stack[i], canonical_tree_fold(
                                  nodes[i].leaves, [&](int leaf) { return e.leaf(leaf); },
                                  [&](Expression a, Expression b) { return e.combine(a, b); }, nodes[i].first));
      }
}

/// If the ranks' sums replace the leaves below them, the result is the tree over the leaves.
TEST(TreeNodes, OfAllRanksFoldAsTheLeavesDo) {
  for (int leaves = 1; leaves <= most_leaves; ++leaves)
    for (int ranks = 1; ranks <= leaves; ++ranks) {
      Expressions e;
      const auto fold = [&](const LeafNode& node) {
        return canonical_tree_fold(
            node.leaves, [&](int leaf) { return e.leaf(leaf); },
            [&](Expression a, Expression b) { return e.combine(a, b); }, node.first);
      };
      std::vector<LeafNode> all;
      std::vector<int> widths;
      for (const auto& nodes : shares_of_ranks(leaves, ranks))
        for (const LeafNode& node : nodes) {
          all.push_back(node);
          widths.push_back(node.leaves);
        }
      const Expression sum = canonical_node_fold(
          widths, [&](int i) { return fold(all[static_cast<std::size_t>(i)]); },
          [&](Expression a, Expression b) { return e.combine(a, b); });
      EXPECT_EQ(sum, fold({0, leaves})) << leaves << " leaves on " << ranks << " ranks";
    }
}

/// Calls `use` with every division of the leaves among the ranks.
void for_each_division(int leaves, int ranks, const std::function<void(const LeafShares&)>& use) {
  std::vector<int> counts;
  const std::function<void(int)> divide = [&](int left) {
    const int ranks_left = ranks - static_cast<int>(counts.size());
    for (int own = ranks_left == 1 ? left : 1; own <= left - ranks_left + 1; ++own) {
      counts.push_back(own);
      ranks_left == 1 ? use(LeafShares(counts)) : divide(left - own);
      counts.pop_back();
    }
  };
  divide(leaves);
}

TEST(LeafShares, AreConsecutiveInTheOrderOfRanks) {
  int divisions = 0;
  for_each_division(6, 3, [&](const LeafShares& shares) {
    ++divisions;
    std::int64_t next = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const Share own = shares.of(rank, 3);
      EXPECT_EQ(own.first, next);
      EXPECT_GE(own.count, 1);
      EXPECT_EQ(own.count, shares.counts(3)[static_cast<std::size_t>(rank)]);
      next = own.end();
    }
    EXPECT_EQ(next, 6);
    EXPECT_EQ(shares.total(), 6);
    EXPECT_EQ(shares.ranks(), shares == LeafShares(6) ? 0 : 3);
  });
  EXPECT_EQ(divisions, 10);
}

TEST(LeafShares, OfMoreThanAnIntCountsAreRefused) {
  const int most = std::numeric_limits<int>::max();
  EXPECT_EQ(LeafShares(std::vector<int>{most - 1, 1}).total(), most);
  EXPECT_EQ(code_of([&] { (void)LeafShares(std::vector<int>{most, 1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)LeafShares(std::vector<int>{1, 0}); }), ErrorCode::invalid_argument);
}

TEST(LeafShares, CompareByTheLeavesOfEachRank) {
  const LeafShares even(std::vector<int>{3, 2});
  const LeafShares other(std::vector<int>{2, 3});
  EXPECT_EQ(even, LeafShares(5)) << "nearly equal shares, given or not";
  EXPECT_EQ(other, LeafShares(std::vector<int>{2, 3}));
  EXPECT_NE(other, even);
  EXPECT_NE(other, LeafShares(std::vector<int>{1, 4}));
  EXPECT_NE((even < other), (other < even));
  EXPECT_EQ(code_of([&] { (void)LeafShares(std::vector<int>{2, 0, 1}); }), ErrorCode::invalid_argument);
}

/// Ranks may have any numbers of leaves.
TEST(LeafTree, AddsInTheCanonicalOrderWhateverTheShares) {
  for (int ranks = 2; ranks <= 4; ++ranks)
    for (int leaves = ranks; leaves <= 9; ++leaves)
      for_each_division(leaves, ranks, [&](const LeafShares& shares) {
        const std::int64_t count = ranks + 1;
        expect_canonical(shares, ranks, count, true, Algorithm::tree_order, {}, {Reach::direct});
        for (const Reach reach : {Reach::direct, Reach::staged, Reach::pulled})
          expect_canonical(shares, ranks, count, true, Algorithm::hierarchical_tree_order, {}, {reach});
      });
  for (const ClusterShape& shape : equal_and_unequal_nodes())
    for_each_division(shape.ranks() + 3, shape.ranks(), [&](const LeafShares& shares) {
      for (const Reach reach : {Reach::direct, Reach::staged})
        expect_canonical(shares, shape.ranks(), 7, true, Algorithm::hierarchical_tree_order, shape, {reach});
    });
}

TEST(LeafTree, AddsInTheCanonicalOrderByMessages) {
  for (int leaves = 1; leaves <= most_leaves; ++leaves)
    for (int ranks = 1; ranks <= leaves; ++ranks)
      for (const std::int64_t count : {0, 1, ranks - 1, ranks + 1, 1009})
        for (const bool in_place : {true, false})
          expect_canonical(leaves, ranks, count, in_place, Algorithm::tree_order, {}, {Reach::direct});
}

TEST(LeafTree, AddsInTheCanonicalOrderInTheMemoryOfANode) {
  for (int leaves = 1; leaves <= most_leaves; ++leaves)
    for (int ranks = 1; ranks <= leaves; ++ranks)
      for (const std::int64_t count : {0, 1, ranks + 1, 1009})
        for (const bool in_place : {true, false})
          for (const Reaches& reaches : {Reaches{Reach::direct}, Reaches{Reach::staged}, Reaches{Reach::pulled},
                                         Reaches{Reach::direct, Reach::staged}, Reaches{Reach::staged, Reach::direct}})
            expect_canonical(leaves, ranks, count, in_place, Algorithm::hierarchical_tree_order, {}, reaches);
}

TEST(LeafTree, AddsInTheCanonicalOrderByCache) {
  for (int leaves = 3; leaves <= most_leaves; ++leaves)
    for (int ranks = 3; ranks <= leaves; ++ranks)
      for (const int ranks_per_cache : {2, 3, 4})
        for (const Reach reach : {Reach::direct, Reach::staged, Reach::pulled})
          expect_canonical(leaves, ranks, ranks + 1, leaves % 2 == 0, Algorithm::hierarchical_tree_order, {}, {reach},
                           ranks_per_cache);
}

/// The ranks are laid out by core and by node, on nodes of equal and of different sizes.
TEST(LeafTree, AddsInTheCanonicalOrderOnSeveralNodes) {
  for (const ClusterShape& shape : equal_and_unequal_nodes())
    for (int leaves = shape.ranks(); leaves <= most_leaves; ++leaves)
      for (const std::int64_t count : {1, shape.ranks() + 1, 1009})
        for (const bool in_place : {true, false})
          for (const Reaches& reaches :
               {Reaches{Reach::direct}, Reaches{Reach::staged}, Reaches{Reach::direct, Reach::staged}})
            expect_canonical(leaves, shape.ranks(), count, in_place, Algorithm::hierarchical_tree_order, shape,
                             reaches);
}

/// Operations follow each other on one channel, mixed with others, in every order.
TEST(LeafTree, FollowsAndIsFollowedByOthers) {
  for (int leaves = 1; leaves <= most_leaves; ++leaves)
    for (int ranks = 1; ranks <= leaves; ++ranks)
      for (const Reach reach : {Reach::direct, Reach::staged}) {
        const Trial trial = trial_of(leaves, ranks, ranks + 1, true);
        const Trial sum{.count = {ranks + 1}, .in_place = true};
        const Algorithm by_memory = Algorithm::hierarchical_tree_order;
        const std::vector<Turn> turns{{trial, plans_of_leaves(trial, leaves, by_memory, {}, {reach})},
                                      {trial, plans_of_leaves(trial, leaves, by_memory, {}, {Reach::pulled})},
                                      {sum, plans_of(sum, ranks, Algorithm::shared_memory, {}, {reach})}};
        for (const Turn& a : turns)
          for (const Turn& b : turns)
            for (const Turn& c : turns) {
              const Turn* const chain[] = {&a, &b, &c};
              const auto fault = prove_succession(chain, {});
              ASSERT_FALSE(fault) << leaves << " leaves, " << ranks << " ranks: " << fault->text;
            }
      }
}

TEST(LeafTree, RefusesWhatCannotBe) {
  const auto schedule = [](const CollectiveDescription& d, Algorithm algorithm) {
    return make_schedule({0}, d, algorithm, {1});
  };
  const Contribution one{.leaves = 1, .in_place = true};
  const CollectiveDescription few{.ranks = 3, .count = {4}, .own = one, .leaves = 2};
  EXPECT_THROW(schedule(few, Algorithm::tree_order), Error);
  const CollectiveDescription another_share{.ranks = 3, .count = {4}, .own = one, .leaves = 8};
  EXPECT_THROW(schedule(another_share, Algorithm::tree_order), Error) << "three leaves are two sums";
  const CollectiveDescription of_others{
      .ranks = 2, .count = {4}, .own = one, .leaves = LeafShares(std::vector<int>{1, 3, 1})};
  EXPECT_THROW(schedule(of_others, Algorithm::tree_order), Error) << "shares of three ranks";
  const CollectiveDescription right{.ranks = 2, .count = {4}, .own = one, .leaves = 8};
  EXPECT_NO_THROW(schedule(right, Algorithm::tree_order));
  EXPECT_THROW(schedule(right, Algorithm::ring), Error) << "it adds in its own order";
  CollectiveDescription gather = right;
  gather.kind = CollectiveKind::all_gather;
  EXPECT_THROW(schedule(gather, Algorithm::tree_order), Error);
}

}  // namespace
}  // namespace lockstep::collectives
