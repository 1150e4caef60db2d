// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/types.hpp"

// The canonical order of addition: a tree over leaves that depends on nothing but their number, so that whoever adds
// in it gets the same bits, whoever holds which of the leaves.
namespace lockstep {

/// Consecutive ones of several.
struct Share {
  std::int64_t first = 0;
  std::int64_t count = 0;
  /// Behind the last.
  [[nodiscard]] std::int64_t end() const { return first + count; }
  friend bool operator==(const Share&, const Share&) = default;
};

/// Part `index` of `parts` (≥ 1) nearly equal ones; the first are longer by one where it does not divide.
Share share_of(std::int64_t total, std::int64_t index, std::int64_t parts);

/// Where the tree over `leaves` (≥ 2) leaves splits: the largest power of two below their number. Below every left
/// branch hangs a full tree: ((0+1)+(2+3))+(4+5) for six.
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

/// How many of some operands are in the left branch. @param widths  as below, of two operands at least
std::size_t canonical_branch(std::span<const int> widths);

/// The same where some sums are there already.
/// @param widths    of how many leaves each operand is the sum, all of them nodes of the tree, ascending and without a
///                  gap; together p
/// @param value_of  value_of(int operand) → T; called once for each, in ascending order
template <class ValueOf, class Combine>
auto canonical_node_fold(std::span<const int> widths, const ValueOf& value_of, const Combine& combine, int first = 0)
    -> decltype(value_of(first)) {
  if (widths.size() == 1) return value_of(first);
  const std::size_t lower = canonical_branch(widths);
  auto sum = canonical_node_fold(widths.first(lower), value_of, combine, first);
  return combine(sum, canonical_node_fold(widths.subspan(lower), value_of, combine, first + static_cast<int>(lower)));
}

/// A node of the tree: the sum of the leaves `first` … `first + leaves`, added up as a tree over so many.
struct LeafNode {
  int first = 0;
  int leaves = 1;
  friend bool operator==(const LeafNode&, const LeafNode&) = default;
};

/// The fewest nodes of the tree over `leaves` leaves that have exactly those of a share, ascending: what a rank comes
/// to that has added up as far as it can alone. At most 2·log₂ leaves.
std::vector<LeafNode> tree_nodes(int leaves, const Share& share);
/// The same of several shares, ascending, none of which ends where the next one begins.
std::vector<LeafNode> tree_nodes(int leaves, std::span<const Share> shares);
/// How many there are. @cost  O(log² leaves), and no allocation
int count_tree_nodes(int leaves, const Share& share);

/// How a rank brings several leaves into one reduction. Of the leaves, rank r of p has `share_of(total, r, p)`, and
/// brings the sums `tree_nodes` of these, one behind the other in memory.
struct Leaves {
  int total = 0;  ///< over all ranks, at least as many as there are ranks; 0: each rank brings one
  Count stride;   ///< elements from the beginning of a sum to that of the next
  friend bool operator==(const Leaves&, const Leaves&) = default;
};

}  // namespace lockstep
