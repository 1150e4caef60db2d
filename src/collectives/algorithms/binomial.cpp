// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/operations.hpp"
#include "collectives/plan/partition.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::collectives {
namespace {

/// A rank's position in the binomial tree. Ranks are relabeled so that the root is 0; a label's parent is the label
/// without its lowest set bit, so the labels of a subtree are consecutive.
class TreeNode {
 public:
  TreeNode(Rank me, int ranks, Rank root) : ranks_(ranks), root_(root.value), label_(wrap(me.value - root_, ranks)) {}

  [[nodiscard]] bool is_root() const { return label_ == 0; }
  [[nodiscard]] bool is_leaf() const { return !is_root() && subtree() == 1; }
  [[nodiscard]] int parent() const { return rank_above(-(label_ & -label_)); }
  /// Returns the number of ranks in this node's subtree.
  [[nodiscard]] int subtree() const { return is_root() ? ranks_ : std::min(reach(), ranks_ - label_); }
  /// Returns the rank whose label is `distance` above this one's.
  [[nodiscard]] int rank_above(int distance) const { return wrap(label_ + distance + root_, ranks_); }

  /// A child, and the labels of its subtree: `ranks` from `distance` above this node's label on.
  struct Child {
    int rank;
    int distance;
    int ranks;
  };
  /// Returns the children, the smallest subtree first.
  [[nodiscard]] std::vector<Child> children() const {
    std::vector<Child> all;
    for (int distance = 1; distance < reach() && label_ + distance < ranks_; distance *= 2)
      all.push_back({rank_above(distance), distance, std::min(distance, ranks_ - label_ - distance)});
    return all;
  }

 private:
  /// Children are at distances 1, 2, 4, … below this.
  [[nodiscard]] int reach() const { return is_root() ? 2 * floor_power_of_two(ranks_) : label_ & -label_; }

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
  for (const auto& child : node.children())
    sum = expressions.combine(sum, subtree_order(expressions, contributions, root, child.rank));
  return sum;
}

/// The buffers of one rank in a gather or scatter.
class Subtree {
 public:
  Subtree(Rank me, const CollectiveDescription& d) : node_(me, d.ranks, d.root), parts_(parts_of(d)) {}

  [[nodiscard]] const TreeNode& node() const { return node_; }
  [[nodiscard]] const Parts& parts() const { return parts_; }
  /// Returns the range of scratch that holds the parts of `ranks` labels, from `distance` above this rank's label on.
  [[nodiscard]] Range held(int distance, int ranks) const {
    return {Memory::scratch, distance * parts_.stride().value, ranks * parts_.stride().value};
  }
  /// Returns the range of a message with a child: the part in the root's buffer if it is a single one, or scratch.
  [[nodiscard]] Range message(const TreeNode::Child& child, Memory root_buffer) const {
    return is_direct(child) ? parts_.of(child.rank, root_buffer) : held(child.distance, child.ranks);
  }
  /// Calls visit(part in the root's buffer, range in scratch) for each part that the root moves through scratch.
  template <typename F>
  void for_each_copy(const TreeNode::Child& child, Memory root_buffer, const F& visit) const {
    for (int i = 0; node_.is_root() && !is_direct(child) && i < child.ranks; ++i)
      visit(parts_.of(node_.rank_above(child.distance + i), root_buffer), held(child.distance + i, 1));
  }
  /// The root needs scratch only if one of its children has a subtree of more than one rank.
  [[nodiscard]] Count scratch() const {
    return {node_.is_root() && node_.subtree() <= 3 ? 0 : node_.subtree() * parts_.stride().value};
  }

 private:
  [[nodiscard]] bool is_direct(const TreeNode::Child& child) const { return node_.is_root() && child.ranks == 1; }

  TreeNode node_;
  Parts parts_;
};

}  // namespace

Plan binomial_broadcast(Rank me, const CollectiveDescription& d) {
  const Range whole{Memory::output, 0, d.count.value};
  const TreeNode node(me, d.ranks, d.root);
  auto children = node.children();
  PlanBuilder plan;
  if (!node.is_root()) plan.receive(node.parent(), whole);
  for (; !children.empty(); children.pop_back()) plan.send(children.back().rank, whole);
  return plan.take();
}

Plan binomial_reduce(Rank me, const CollectiveDescription& d) {
  const TreeNode node(me, d.ranks, d.root);
  const Range sum{node.is_root() ? Memory::output : Memory::scratch, 0, d.count.value};
  const Contribution own{d.own.leaves, d.own.in_place && node.is_root()};
  PlanBuilder plan;
  std::optional<Range> held = contribution(plan, own, sum);
  for (const auto& child : node.children()) {
    if (held) plan.receive_reduce(child.rank, sum, *held, FirstOperand::own);
    if (!held) plan.receive(child.rank, sum);
    held = sum;
  }
  if (!held) plan.fill(sum);
  const Range result = held.value_or(sum);
  if (!node.is_root()) plan.send(node.parent(), result);
  if (node.is_root() && result.memory == Memory::input) plan.copy(sum, result);
  if (result.memory == Memory::scratch) plan.scratch(d.count);
  return plan.take();
}

Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root) {
  return subtree_order(expressions, contributions, root, root.value);
}

Plan binomial_gather(Rank me, const CollectiveDescription& d) {
  const Subtree tree(me, d);
  const TreeNode& node = tree.node();
  const Range own = tree.parts().alone(me.value, Memory::input);
  PlanBuilder plan;
  if (node.is_leaf()) {
    plan.send(node.parent(), own);
    return plan.take();
  }
  plan.scratch(tree.scratch());
  if (!node.is_root()) plan.copy(tree.held(0, 1), own);
  for (const auto& child : node.children()) {
    plan.receive(child.rank, tree.message(child, Memory::output));
    tree.for_each_copy(child, Memory::output, [&](const Range& part, const Range& held) { plan.copy(part, held); });
  }
  if (!node.is_root()) plan.send(node.parent(), tree.held(0, node.subtree()));
  if (node.is_root() && !d.own.in_place) plan.copy(tree.parts().of(me.value, Memory::output), own);
  return plan.take();
}

Plan binomial_scatter(Rank me, const CollectiveDescription& d) {
  const Subtree tree(me, d);
  const TreeNode& node = tree.node();
  const Range own = tree.parts().alone(me.value, Memory::output);
  PlanBuilder plan;
  if (node.is_leaf()) {
    plan.receive(node.parent(), own);
    return plan.take();
  }
  plan.scratch(tree.scratch());
  if (!node.is_root()) plan.receive(node.parent(), tree.held(0, node.subtree()));
  for (auto children = node.children(); !children.empty(); children.pop_back()) {
    const TreeNode::Child& child = children.back();
    tree.for_each_copy(child, Memory::input, [&](const Range& part, const Range& held) { plan.copy(held, part); });
    plan.send(child.rank, tree.message(child, Memory::input));
  }
  if (!node.is_root()) plan.copy(own, tree.held(0, 1));
  if (node.is_root() && !d.own.in_place) plan.copy(own, tree.parts().of(me.value, Memory::input));
  return plan.take();
}

}  // namespace lockstep::collectives
