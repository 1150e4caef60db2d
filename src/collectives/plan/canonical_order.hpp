// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <functional>
#include <span>

#include "collectives/plan/expression.hpp"

/// The canonical order of addition: the left-complete binary tree over the leaves. It depends on nothing but their
/// number, so that whoever adds in it, over whatever medium and in pieces of whatever size, gets the same bits.
namespace lockstep::collectives {

/// Where the tree over `leaves` leaves splits: the largest power of two below their number. Below every left branch
/// hangs a full tree: ((0+1)+(2+3))+(4+5) for six.
/// @pre leaves ≥ 2
constexpr int canonical_split(int leaves) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(leaves - 1)));
}

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
