// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "collectives/algorithms/operations.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::collectives {
namespace {

/// A rank's position in the binomial tree. Ranks are relabeled so that the root is 0; a label's parent is the label
/// without its lowest set bit, so the labels of a subtree are consecutive.
class TreeNode {
 public:
  TreeNode(Rank me, int ranks, Rank root) : ranks_(ranks), root_(root.value), label_(wrap(me.value - root_, ranks)) {}

  [[nodiscard]] bool is_root() const { return label_ == 0; }
  [[nodiscard]] int parent() const { return rank_above(-(label_ & -label_)); }
  /// Returns the child whose subtree begins `distance` labels above this label; nothing if the tree ends before.
  [[nodiscard]] std::optional<int> child(int distance) const {
    if (label_ + distance >= ranks_) return std::nullopt;
    return rank_above(distance);
  }
  /// Returns the number of ranks in that child's subtree. @pre the child exists
  [[nodiscard]] int ranks_below(int distance) const { return std::min(distance, ranks_ - label_ - distance); }
  /// Returns the number of ranks in this node's subtree.
  [[nodiscard]] int subtree() const { return is_root() ? ranks_ : std::min(reach(), ranks_ - label_); }
  /// Children are at distances 1, 2, 4, … below this.
  [[nodiscard]] int reach() const { return is_root() ? 2 * floor_power_of_two(ranks_) : label_ & -label_; }
  /// Returns the rank whose label is `distance` above this one's.
  [[nodiscard]] int rank_above(int distance) const { return wrap(label_ + distance + root_, ranks_); }

 private:
  int ranks_;
  int root_;
  int label_;
};

/// Returns the range of the rank's own contribution; nothing if it has no leaf. Several leaves are added in `sum`.
std::optional<Range> contribution(PlanBuilder& plan, const Contribution& own, const Range& sum) {
  const auto input = [&](int leaf) { return Range{Memory::input, 0, sum.count, leaf}; };
  if (own.leaves == 0) return std::nullopt;
  if (own.leaves == 1) return own.in_place ? sum : input(0);
  if (!own.in_place) plan.copy(sum, input(0));
  for (int leaf = 1; leaf < own.leaves; ++leaf) plan.reduce(sum, input(leaf));
  return sum;
}

Expression subtree_order(Expressions& expressions, std::span<const Expression> contributions, Rank root, int rank) {
  const TreeNode node({rank}, static_cast<int>(contributions.size()), root);
  Expression sum = contributions[static_cast<std::size_t>(rank)];
  for (int distance = 1; distance < node.reach(); distance *= 2)
    if (const auto child = node.child(distance))
      sum = expressions.combine(sum, subtree_order(expressions, contributions, root, *child));
  return sum;
}

/// The parts of a rank's subtree, in the order of labels, and their place in scratch.
class Subtree {
 public:
  Subtree(Rank me, const CollectiveDescription& d) : count_(d.count.value), node_(me, d.ranks, d.root) {}

  [[nodiscard]] const TreeNode& node() const { return node_; }
  [[nodiscard]] bool is_leaf() const { return !node_.is_root() && node_.subtree() == 1; }
  /// Returns a rank's part in a buffer that holds all parts.
  [[nodiscard]] Range part(Memory memory, int rank) const { return {memory, rank * count_, count_}; }
  [[nodiscard]] Range own(Memory memory) const { return {memory, 0, count_}; }
  /// Returns the range of scratch that holds the parts of `ranks` labels, from `distance` above this rank's label on.
  [[nodiscard]] Range held(int distance, int ranks) const {
    return {Memory::scratch, distance * count_, ranks * count_};
  }
  /// The child whose label is `distance` above this rank's.
  struct Child {
    int rank;
    int distance;
    int ranks;
  };
  [[nodiscard]] std::optional<Child> child(int distance) const {
    const auto rank = node_.child(distance);
    if (!rank) return std::nullopt;
    return Child{*rank, distance, node_.ranks_below(distance)};
  }
  /// Calls visit(rank, range in scratch) for the ranks of a child's subtree.
  template <typename F>
  void for_each_rank(const Child& child, const F& visit) const {
    for (int i = 0; i < child.ranks; ++i) visit(node_.rank_above(child.distance + i), held(child.distance + i, 1));
  }
  /// The root needs scratch only if one of its children has a subtree of more than one rank.
  [[nodiscard]] Count scratch() const {
    if (is_leaf()) return {0};
    return {node_.is_root() && node_.subtree() <= 3 ? 0 : node_.subtree() * count_};
  }

 private:
  std::int64_t count_;
  TreeNode node_;
};

}  // namespace

Plan binomial_broadcast(Rank me, const CollectiveDescription& d) {
  const Range whole{Memory::output, 0, d.count.value};
  const TreeNode node(me, d.ranks, d.root);
  PlanBuilder plan;
  if (!node.is_root()) plan.receive(node.parent(), whole);
  for (int distance = node.reach() / 2; distance > 0; distance /= 2)
    if (const auto child = node.child(distance)) plan.send(*child, whole);
  return plan.take();
}

double binomial_broadcast_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double rounds = ceil_log2(ranks);
  return price(rates, buffer, rounds, rounds, 0);
}

Plan binomial_reduce(Rank me, const CollectiveDescription& d) {
  const TreeNode node(me, d.ranks, d.root);
  const Range sum{node.is_root() ? Memory::output : Memory::scratch, 0, d.count.value};
  const Contribution own{d.own.leaves, d.own.in_place && node.is_root()};
  PlanBuilder plan;
  std::optional<Range> held = contribution(plan, own, sum);
  for (int distance = 1; distance < node.reach(); distance *= 2) {
    const auto child = node.child(distance);
    if (!child) continue;
    if (held) plan.receive_reduce(*child, sum, *held, FirstOperand::own);
    if (!held) plan.receive(*child, sum);
    held = sum;
  }
  if (!held) plan.fill(sum);
  const Range result = held.value_or(sum);
  if (!node.is_root()) plan.send(node.parent(), result);
  if (node.is_root() && result.memory == Memory::input) plan.copy(sum, result);
  if (result.memory == Memory::scratch) plan.scratch(d.count);
  return plan.take();
}

double binomial_reduce_seconds(int ranks, Bytes buffer, const Rates& rates) {
  const double rounds = ceil_log2(ranks);
  return price(rates, buffer, rounds, rounds, rounds);
}

Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root) {
  return subtree_order(expressions, contributions, root, root.value);
}

Plan binomial_gather(Rank me, const CollectiveDescription& d) {
  const Subtree tree(me, d);
  PlanBuilder plan;
  if (tree.is_leaf()) {
    plan.send(tree.node().parent(), tree.own(Memory::input));
    return plan.take();
  }
  const bool is_root = me == d.root;
  plan.scratch(tree.scratch());
  if (!is_root) plan.copy(tree.held(0, 1), tree.own(Memory::input));
  for (int distance = 1; distance < tree.node().reach(); distance *= 2) {
    const auto child = tree.child(distance);
    if (!child) continue;
    const bool is_single = is_root && child->ranks == 1;
    plan.receive(child->rank,
                 is_single ? tree.part(Memory::output, child->rank) : tree.held(child->distance, child->ranks));
    if (is_root && !is_single)
      tree.for_each_rank(*child,
                         [&](int rank, const Range& held) { plan.copy(tree.part(Memory::output, rank), held); });
  }
  if (!is_root) plan.send(tree.node().parent(), tree.held(0, tree.node().subtree()));
  if (is_root && !d.own.in_place) plan.copy(tree.part(Memory::output, me.value), tree.own(Memory::input));
  return plan.take();
}

Plan binomial_scatter(Rank me, const CollectiveDescription& d) {
  const Subtree tree(me, d);
  PlanBuilder plan;
  if (tree.is_leaf()) {
    plan.receive(tree.node().parent(), tree.own(Memory::output));
    return plan.take();
  }
  const bool is_root = me == d.root;
  plan.scratch(tree.scratch());
  if (!is_root) plan.receive(tree.node().parent(), tree.held(0, tree.node().subtree()));
  for (int distance = tree.node().reach() / 2; distance > 0; distance /= 2) {
    const auto child = tree.child(distance);
    if (!child) continue;
    const bool is_single = is_root && child->ranks == 1;
    if (is_root && !is_single)
      tree.for_each_rank(*child, [&](int rank, const Range& held) { plan.copy(held, tree.part(Memory::input, rank)); });
    plan.send(child->rank,
              is_single ? tree.part(Memory::input, child->rank) : tree.held(child->distance, child->ranks));
  }
  if (!is_root) plan.copy(tree.own(Memory::output), tree.held(0, 1));
  if (is_root && !d.own.in_place) plan.copy(tree.own(Memory::output), tree.part(Memory::input, me.value));
  return plan.take();
}

double binomial_gather_seconds(int ranks, Bytes part, const Rates& rates) {
  return price(rates, part, ceil_log2(ranks), ranks - 1, 0);
}

}  // namespace lockstep::collectives
