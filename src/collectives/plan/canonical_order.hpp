// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <span>

#include "collectives/plan/expression.hpp"
#include "lockstep/base/leaves.hpp"

/// The canonical order of addition: the left-complete binary tree over the leaves. It depends on nothing but their
/// number, so that whoever adds in it, over whatever medium and in pieces of whatever size, gets the same bits.
namespace lockstep::collectives {

using lockstep::canonical_split;

/// sum(0 … p) = sum(0 … q) ⊕ sum(q … p) with q = canonical_split(p), and so on downwards.
/// @param leaves    p ≥ 1
/// @param value_of  value_of(int leaf) → T; called once for each leaf, in ascending order
/// @param combine   combine(T, T) → T, the sum of the lower leaves first
/// @cost  p − 1 additions, log₂ p deep
template <class ValueOf, class Combine>
auto canonical_tree_fold(int leaves, const ValueOf& value_of, const Combine& combine, int first = 0)
    -> decltype(value_of(first)) {
  if (leaves == 1) return value_of(first);
  const int left = canonical_split(leaves);
  auto lower = canonical_tree_fold(left, value_of, combine, first);
  return combine(lower, canonical_tree_fold(leaves - left, value_of, combine, first + left));
}

/// The same where some sums are there already.
/// @param widths    of how many leaves each operand is the sum, all of them nodes of the tree, ascending and without a
///                  gap; together p
/// @param value_of  value_of(int operand) → T; called once for each, in ascending order
template <class ValueOf, class Combine>
auto canonical_node_fold(std::span<const int> widths, const ValueOf& value_of, const Combine& combine, int first = 0)
    -> decltype(value_of(first)) {
  if (widths.size() == 1) return value_of(first);
  const int left = canonical_split(std::accumulate(widths.begin(), widths.end(), 0));
  std::size_t lower = 0;
  for (int leaves = 0; leaves < left; ++lower) leaves += widths[lower];
  auto sum = canonical_node_fold(widths.first(lower), value_of, combine, first);
  return combine(sum,
                 canonical_node_fold(widths.subspan(lower), value_of, combine, first + static_cast<int>(lower)));
}

/// The canonical order as an expression. @param contributions  one for each leaf, at least one
inline Expression canonical_tree_order(Expressions& expressions, std::span<const Expression> contributions) {
  return canonical_tree_fold(
      static_cast<int>(contributions.size()), [&](int leaf) { return contributions[static_cast<std::size_t>(leaf)]; },
      [&](Expression a, Expression b) { return expressions.combine(a, b); });
}

/// What `Algorithm::tree_order` gives on as many ranks as there are inputs, computed in this process; equal to it bit
/// for bit. Overwrites.
/// @param inputs   one for each rank, each as long as `result`, at least one; `result` may be one of them
/// @param combine  of two elements; std::plus for a sum
template <class T, class Combine = std::plus<>>
void canonical_tree_reduce(std::span<const std::span<const T>> inputs, std::span<T> result,
                           const Combine& combine = {}) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = canonical_tree_fold(
        static_cast<int>(inputs.size()), [&](int leaf) { return inputs[static_cast<std::size_t>(leaf)][i]; }, combine);
  }
}

}  // namespace lockstep::collectives
