// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/expression.hpp"

#include <algorithm>

namespace lockstep::collectives {

Expressions::Expressions() : nodes_{{-1, -1, -1, 0}} {}

Expression Expressions::add(const Node& node) {
  nodes_.push_back(node);
  return {static_cast<std::int32_t>(nodes_.size() - 1)};
}

Expression Expressions::leaf(int number) {
  const auto [known, is_new] = leaf_ids_.try_emplace(number, 0);
  if (is_new) known->second = add({-1, -1, number, 1}).id;
  return {known->second};
}

Expression Expressions::combine(Expression a, Expression b) {
  if (a == neutral()) return b;
  if (b == neutral()) return a;
  const std::uint64_t key = (static_cast<std::uint64_t>(a.id) << 32U) | static_cast<std::uint32_t>(b.id);
  const auto [known, is_new] = pair_ids_.try_emplace(key, 0);
  if (is_new) {
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    known->second = add({a.id, b.id, -1, std::min(limit, size(a) + size(b))}).id;
  }
  return {known->second};
}

Expression Expressions::left_fold(std::span<const Expression> operands) {
  Expression sum = neutral();
  for (const Expression operand : operands) sum = combine(sum, operand);
  return sum;
}

Expression Expressions::without_leaves_from(int first, Expression e) {
  const Node n = node(e);  // a copy, because nodes move while the tree grows
  if (n.size == 0) return e;
  if (n.size == 1) return n.leaf < first ? e : neutral();
  return combine(without_leaves_from(first, {n.left}), without_leaves_from(first, {n.right}));
}

std::vector<int> Expressions::leaves(Expression e) const {
  std::vector<int> result;
  std::vector<Expression> pending{e};
  while (!pending.empty()) {
    const Node& n = node(pending.back());
    pending.pop_back();
    if (n.size == 1) result.push_back(n.leaf);
    if (n.size > 1) pending.insert(pending.end(), {Expression{n.left}, Expression{n.right}});
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::string Expressions::to_string(Expression e) const {
  const Node& n = node(e);
  if (n.size == 0) return "neutral";
  if (n.size == 1) return std::to_string(n.leaf);
  const auto operand = [this](Expression child) {
    const std::string text = to_string(child);
    return size(child) > 1 ? "(" + text + ")" : text;
  };
  return operand({n.left}) + "+" + operand({n.right});
}

}  // namespace lockstep::collectives
