// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/base/leaves.hpp"

namespace lockstep::collectives {

using lockstep::canonical_node_fold;
using lockstep::canonical_split;
using lockstep::canonical_tree_fold;

/// One node of an `Expressions`: equal values are equal trees.
struct Expression {
  std::int32_t id = 0;
  friend bool operator==(const Expression&, const Expression&) = default;
};

/// The order in which operands are added: binary trees over numbered leaves, each distinct one stored once.
///
/// a ⊕ b and b ⊕ a are different trees, because a processor returns the first of two NaNs, and a maximum or minimum the
/// first of two zeros. So are (a ⊕ b) ⊕ c and a ⊕ (b ⊕ c). The neutral element vanishes: x ⊕ neutral is x (for sums to
/// the last bit, an executor fills −0.0).
class Expressions {
 public:
  Expressions();

  [[nodiscard]] static Expression neutral() { return {0}; }
  /// @pre number ≥ 0
  Expression leaf(int number);
  Expression combine(Expression a, Expression b);
  /// Returns ((e₀ ⊕ e₁) ⊕ e₂) ⊕ …; neutral if there are no operands.
  Expression left_fold(std::span<const Expression> operands);

  /// Returns the tree with all leaves from number `first` on replaced by the neutral element.
  Expression without_leaves_from(int first, Expression e);

  /// Returns the number of leaves of the tree, counting every occurrence; it stops counting at 2³¹.
  [[nodiscard]] std::int64_t size(Expression e) const { return node(e).size; }
  /// Returns the leaves in ascending order, with every occurrence. @cost O(size(e))
  [[nodiscard]] std::vector<int> leaves(Expression e) const;
  /// Returns text such as "((0+1)+2)+3", the first operand first. The neutral element prints as "neutral".
  [[nodiscard]] std::string to_string(Expression e) const;

  /// Evaluates the tree on data.
  /// @param value_of  value_of(leaf) → T
  /// @param combine   combine(T, T) → T
  template <class T, class ValueOf, class Combine>
  [[nodiscard]] T fold(Expression e, const T& neutral, const ValueOf& value_of, const Combine& combine) const {
    const Node& n = node(e);
    if (n.size == 0) return neutral;
    if (n.size == 1) return value_of(n.leaf);
    return combine(fold<T>({n.left}, neutral, value_of, combine), fold<T>({n.right}, neutral, value_of, combine));
  }

 private:
  struct Node {
    std::int32_t left;
    std::int32_t right;
    int leaf;  ///< its number; −1 unless the node is one
    std::int64_t size;
  };
  [[nodiscard]] const Node& node(Expression e) const { return nodes_[static_cast<std::size_t>(e.id)]; }
  Expression add(const Node& node);

  std::vector<Node> nodes_;
  std::unordered_map<int, std::int32_t> leaf_ids_;
  std::unordered_map<std::uint64_t, std::int32_t> pair_ids_;
};

/// The canonical order of addition as an expression: the left-complete binary tree over the leaves. It depends on their
/// number only, so that adding in it gives the same bits over any medium and in pieces of any size.
/// @param contributions  one for each leaf, at least one
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
