// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/types.hpp"

// The canonical order of addition: a tree over leaves that depends on their number only. Adding in this order gives the
// same bits for any assignment of leaves to ranks.

namespace lockstep {

/// A range of consecutive indices.
struct Share {
  std::int64_t first = 0;
  std::int64_t count = 0;
  /// The index after the last one.
  [[nodiscard]] std::int64_t end() const { return first + count; }
  friend bool operator==(const Share&, const Share&) = default;
};

/// Part `index` of `parts` (≥ 1) nearly equal ranges; the first ones are longer by one if the total does not divide
/// evenly.
Share share_of(std::int64_t total, std::int64_t index, std::int64_t parts);

/// The size of the left branch of the tree over `leaves` (≥ 2) leaves: the largest power of two below their number.
/// Every left branch is a full tree: ((0+1)+(2+3))+(4+5) for six leaves.
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

/// Returns the number of operands in the left branch. @param widths  as below, for at least two operands
std::size_t canonical_branch(std::span<const int> widths);

/// Adds operands that are partial sums already, in the same order.
/// @param widths    number of leaves of each operand; the operands are nodes of the tree, ascending, without gaps, with
///         p leaves in total
/// @param value_of  value_of(int operand) → T; called once for each operand, in ascending order
template <class ValueOf, class Combine>
auto canonical_node_fold(std::span<const int> widths, const ValueOf& value_of, const Combine& combine, int first = 0)
    -> decltype(value_of(first)) {
  if (widths.size() == 1) return value_of(first);
  const std::size_t lower = canonical_branch(widths);
  auto sum = canonical_node_fold(widths.first(lower), value_of, combine, first);
  return combine(sum, canonical_node_fold(widths.subspan(lower), value_of, combine, first + static_cast<int>(lower)));
}

/// A node of the tree: the sum of the leaves `first` … `first + leaves`, added as a tree over that many leaves.
struct LeafNode {
  int first = 0;
  int leaves = 1;
  friend bool operator==(const LeafNode&, const LeafNode&) = default;
};

/// The smallest set of nodes of the tree over `leaves` leaves that covers exactly the leaves of a share, ascending: the
/// partial sums that a rank can compute alone. There are at most 2·log₂ leaves.
std::vector<LeafNode> tree_nodes(int leaves, const Share& share);
/// Returns the nodes for several shares, ascending, with gaps between them.
std::vector<LeafNode> tree_nodes(int leaves, std::span<const Share> shares);
/// Returns the number of nodes for a share. @cost  O(log² leaves), without an allocation
int count_tree_nodes(int leaves, const Share& share);

/// The contribution of a rank with several leaves to a reduction. Rank r of p has the leaves `share_of(total, r, p)`
/// and contributes their sums `tree_nodes`, concatenated in memory.
struct Leaves {
  int total = 0;  ///< number of leaves of all ranks, at least the number of ranks; 0: one for each rank
  Count stride;   ///< elements from the beginning of one sum to the next
  friend bool operator==(const Leaves&, const Leaves&) = default;
};

}  // namespace lockstep
