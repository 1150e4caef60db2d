// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/binomial.hpp"

#include <optional>

#include "collectives/algorithms/binomial_tree.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

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

}  // namespace

Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root) {
  const Range whole{Memory::output, 0, count.value};
  const TreeNode node(me, ranks, root);
  PlanBuilder plan;
  if (!node.is_root()) plan.receive(node.parent(), whole);
  for (int distance = node.reach() / 2; distance > 0; distance /= 2)
    if (const auto child = node.child(distance)) plan.send(*child, whole);
  return plan.take();
}

Plan binomial_reduce(Rank me, int ranks, Count count, Rank root, Contribution own) {
  const TreeNode node(me, ranks, root);
  const Range sum{node.is_root() ? Memory::output : Memory::scratch, 0, count.value};
  own.in_place = own.in_place && node.is_root();
  PlanBuilder plan;
  std::optional<Range> held = contribution(plan, own, sum);
  for (int distance = 1; distance < node.reach(); distance *= 2) {
    const auto child = node.child(distance);
    if (!child) continue;
    if (held) plan.receive_reduce(*child, sum, *held);
    if (!held) plan.receive(*child, sum);
    held = sum;
  }
  if (!held) plan.fill(sum);
  const Range result = held.value_or(sum);
  if (!node.is_root()) plan.send(node.parent(), result);
  if (node.is_root() && result.memory == Memory::input) plan.copy(sum, result);
  if (result.memory == Memory::scratch) plan.scratch(count);
  return plan.take();
}

Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root) {
  return subtree_order(expressions, contributions, root, root.value);
}

}  // namespace lockstep::collectives
