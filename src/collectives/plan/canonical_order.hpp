// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "collectives/plan/expression.hpp"
#include "lockstep/base/leaves.hpp"

/// The canonical order of addition: the left-complete binary tree over the leaves. It depends on their number only, so
/// that adding in it gives the same bits over any medium and in pieces of any size.
namespace lockstep::collectives {

using lockstep::canonical_node_fold;
using lockstep::canonical_split;
using lockstep::canonical_tree_fold;

/// The canonical order as an expression. @param contributions  one for each leaf, at least one
inline Expression canonical_tree_order(Expressions& expressions, std::span<const Expression> contributions) {
  return canonical_tree_fold(
      static_cast<int>(contributions.size()), [&](int leaf) { return contributions[static_cast<std::size_t>(leaf)]; },
      [&](Expression a, Expression b) { return expressions.combine(a, b); });
}

/// The result of `Algorithm::tree_order` on as many ranks as there are inputs, computed in this process, equal to the
/// last bit. It overwrites `result`.
/// @param inputs   one for each rank, each as long as `result`, at least one; `result` may be one of them
/// @param combine  combination of two elements; std::plus for a sum
template <class T, class Combine = std::plus<>>
void canonical_tree_reduce(std::span<const std::span<const T>> inputs, std::span<T> result,
                           const Combine& combine = {}) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = canonical_tree_fold(
        static_cast<int>(inputs.size()), [&](int leaf) { return inputs[static_cast<std::size_t>(leaf)][i]; }, combine);
  }
}

}  // namespace lockstep::collectives
