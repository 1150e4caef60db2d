// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/binomial_parts.hpp"

#include "collectives/algorithms/binomial_tree.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// The parts of a rank's subtree, in the order of labels, and their place in scratch.
class Subtree {
 public:
  Subtree(Rank me, int ranks, Count count, Rank root) : me_(me), count_(count.value), node_(me, ranks, root) {}

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
  Rank me_;
  std::int64_t count_;
  TreeNode node_;
};

}  // namespace

Plan binomial_gather(Rank me, int ranks, Count count, Rank root, bool in_place) {
  const Subtree tree(me, ranks, count, root);
  PlanBuilder plan;
  if (tree.is_leaf()) {
    plan.send(tree.node().parent(), tree.own(Memory::input));
    return plan.take();
  }
  const bool is_root = me == root;
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
  if (is_root && !in_place) plan.copy(tree.part(Memory::output, me.value), tree.own(Memory::input));
  return plan.take();
}

Plan binomial_scatter(Rank me, int ranks, Count count, Rank root, bool in_place) {
  const Subtree tree(me, ranks, count, root);
  PlanBuilder plan;
  if (tree.is_leaf()) {
    plan.receive(tree.node().parent(), tree.own(Memory::output));
    return plan.take();
  }
  const bool is_root = me == root;
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
  if (is_root && !in_place) plan.copy(tree.own(Memory::output), tree.part(Memory::input, me.value));
  return plan.take();
}

}  // namespace lockstep::collectives
