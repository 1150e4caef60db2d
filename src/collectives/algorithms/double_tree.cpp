// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::array trees{0, 1};

/// A node of the binary tree over the labels 0 … ranks−1 whose in-order traversal visits them in ascending order. A
/// label with k trailing zeros is k levels above the leaves, which are the odd labels; 0 is the root and has one child.
struct InOrderNode {
  int parent = -1;  ///< −1 at the root
  std::vector<int> children;
};

InOrderNode in_order_node(int label, int ranks) {
  InOrderNode node;
  const int reach = label == 0 ? 2 * floor_power_of_two(ranks) : label & -label;
  if (label > 0) {
    const bool is_left_child = (label & (2 * reach)) == 0;
    node.parent = is_left_child && label + reach < ranks ? label + reach : label - reach;
    if (reach > 1) node.children.push_back(label - reach / 2);
  }
  for (int step = reach / 2; step > 0; step /= 2) {
    if (label + step >= ranks) continue;
    node.children.push_back(label + step);
    break;
  }
  return node;
}

/// Returns a rank's label in a tree. The second tree is mirrored or rotated, either of which swaps odd and even labels.
int label_of(int rank, int tree, int ranks) {
  if (tree == 0) return rank;
  return ranks % 2 == 0 ? ranks - 1 - rank : wrap(rank - 1, ranks);
}
int rank_of(int label, int tree, int ranks) {
  if (tree == 0) return label;
  return ranks % 2 == 0 ? ranks - 1 - label : wrap(label + 1, ranks);
}

InOrderNode node_of(int rank, int tree, int ranks) {
  InOrderNode node = in_order_node(label_of(rank, tree, ranks), ranks);
  if (node.parent >= 0) node.parent = rank_of(node.parent, tree, ranks);
  for (int& child : node.children) child = rank_of(child, tree, ranks);
  return node;
}

/// Returns which operand comes first where `rank` adds the sum of a child: that of the lower rank.
FirstOperand first_operand(int rank, int child) { return rank < child ? FirstOperand::own : FirstOperand::other; }

Expression subtree_order(Expressions& expressions, std::span<const Expression> contributions, int tree, int rank) {
  Expression sum = contributions[static_cast<std::size_t>(rank)];
  for (const int child : node_of(rank, tree, static_cast<int>(contributions.size())).children) {
    const Expression added = subtree_order(expressions, contributions, tree, child);
    sum = first_operand(rank, child) == FirstOperand::own ? expressions.combine(sum, added)
                                                          : expressions.combine(added, sum);
  }
  return sum;
}

}  // namespace

/// Double binary tree in the output: each of two trees reduces one half of the buffer to its root and broadcasts the
/// sum down again. The second tree is the first one mirrored (even p) or rotated by one rank (odd p), so that a rank
/// that has children in one is a leaf of the other (for odd p one rank has children in both): together they use every
/// link in both directions. Logarithmic latency at nearly full bandwidth once many blocks are in flight.
/// @cost   at most 4h(α + nβ/2) + h·nγ with h = ⌈log₂p⌉, for one block alone; blocks in flight overlap
/// @source Sanders, Speck & Träff, Parallel Computing 35(12), 2009
Plan double_tree_all_reduce(Rank me, int ranks, Count count, int /*radix*/) {
  PlanBuilder plan;
  for (const int tree : trees) {
    const InOrderNode node = node_of(me.value, tree, ranks);
    for (const int child : node.children)
      plan.receive_reduce(child, chunk(count, 2, tree), first_operand(me.value, child));
    if (node.parent >= 0) plan.send(node.parent, chunk(count, 2, tree));
  }
  for (const int tree : trees) {
    const InOrderNode node = node_of(me.value, tree, ranks);
    if (node.parent >= 0) plan.receive(node.parent, chunk(count, 2, tree));
    for (const int child : node.children) plan.send(child, chunk(count, 2, tree));
  }
  return plan.take();
}

/// The same order for all elements of one half: each rank adds its children's sums to its own contribution, the
/// lower-labeled child first.
Expression double_tree_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                        Count count, std::int64_t element) {
  const int tree = chunk_of(count, 2, element);
  return subtree_order(expressions, contributions, tree, rank_of(0, tree, static_cast<int>(contributions.size())));
}

/// The cost is an upper bound, since ports idle if only one child sends. For two ranks it is twice the exact cost.
double double_tree_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int /*radix*/) {
  const double height = ceil_log2(ranks);
  return price(links.far, buffer, 4 * height, 2 * height, height);
}

}  // namespace lockstep::collectives
