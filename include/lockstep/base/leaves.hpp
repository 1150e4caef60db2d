// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
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

/// Which leaves each rank has: consecutive ones, after those of the rank before it. Copies share memory.
class LeafShares {
 public:
  /// Nearly equal shares of `total` leaves, `share_of`, for any number of ranks; 0: there are no leaves.
  LeafShares(int total = 0) : total_(total) {}  // NOLINT(google-explicit-constructor): a number is such a value
  /// Shares of the given numbers of leaves, in the order of ranks.
  /// @throws Error{invalid_argument} if a rank has none
  explicit LeafShares(const std::vector<int>& counts);

  /// The number of leaves of all ranks.
  [[nodiscard]] int total() const { return total_; }
  /// The number of ranks; 0: any, because the shares are nearly equal.
  [[nodiscard]] int ranks() const { return ends_ == nullptr ? 0 : static_cast<int>(ends_->size()); }
  /// The leaves of a rank. @param ranks  number of ranks, equal to `ranks()` unless that is 0
  [[nodiscard]] Share of(int rank, int ranks) const;
  /// The number of leaves of each rank.
  [[nodiscard]] std::vector<int> counts(int ranks) const;

  /// Checks that other shares can replace these ones. @throws Error{invalid_argument} for another number of leaves, or
  /// of ranks
  void require_replaceable_by(const LeafShares& others, int ranks) const;

  friend bool operator==(const LeafShares& a, const LeafShares& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const LeafShares& a, const LeafShares& b);

 private:
  int total_ = 0;
  std::shared_ptr<const std::vector<int>> ends_;  // by rank, the leaf after its last one; null: nearly equal shares
};

/// The contribution of a rank with several leaves to a reduction: the sums `tree_nodes` of its leaves, concatenated in
/// memory.
struct Leaves {
  LeafShares shares;  ///< at least one leaf for each rank; none at all: each rank contributes one operand
  Count stride;       ///< elements from the beginning of one sum to the next
  friend bool operator==(const Leaves&, const Leaves&) = default;
};

}  // namespace lockstep
