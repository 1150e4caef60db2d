// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/leaves.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// Calls `take` for the highest nodes, from `below` downwards, that contain only leaves of the shares, which are
/// ascending.
template <typename Take>
void for_each_node(const LeafNode& below, std::span<const Share> shares, const Take& take) {
  const std::int64_t end = below.first + below.leaves;
  const auto reaches = [&](const Share& share) { return share.end() > below.first; };
  const auto share = std::find_if(shares.begin(), shares.end(), reaches);
  if (share == shares.end() || share->first >= end) return;
  if (share->first <= below.first && share->end() >= end) return take(below);
  const int left = canonical_split(below.leaves);
  for_each_node({below.first, left}, shares, take);
  for_each_node({below.first + left, below.leaves - left}, shares, take);
}

}  // namespace

Share share_of(std::int64_t total, std::int64_t index, std::int64_t parts) {
  const std::int64_t size = total / parts;
  const std::int64_t longer = total % parts;
  return {index * size + std::min(index, longer), size + (index < longer ? 1 : 0)};
}

std::size_t canonical_branch(std::span<const int> widths) {
  const int below = canonical_split(std::accumulate(widths.begin(), widths.end(), 0));
  std::size_t left = 0;
  for (int leaves = 0; leaves < below; ++left) leaves += widths[left];
  return left;
}

std::vector<LeafNode> tree_nodes(int leaves, std::span<const Share> shares) {
  std::vector<LeafNode> nodes;
  for_each_node({0, leaves}, shares, [&](const LeafNode& node) { nodes.push_back(node); });
  return nodes;
}

std::vector<LeafNode> tree_nodes(int leaves, const Share& share) { return tree_nodes(leaves, std::span(&share, 1)); }

int count_tree_nodes(int leaves, const Share& share) {
  int count = 0;
  for_each_node({0, leaves}, std::span(&share, 1), [&](const LeafNode& /*node*/) { ++count; });
  return count;
}

LeafShares::LeafShares(const std::vector<int>& counts) {
  std::vector<int> ends;
  const auto ranks = static_cast<std::int64_t>(counts.size());
  for (const int count : counts) {
    if (count < 1) {
      throw Error(ErrorCode::invalid_argument, "a share of " + std::to_string(count) + " leaves for rank " +
                                                   std::to_string(ends.size()) + ": give each rank at least one");
    }
    if (__builtin_add_overflow(total_, count, &total_))
      throw Error(ErrorCode::invalid_argument, "the shares of " + std::to_string(ranks) +
                                                   " ranks are more than 2,147,483,647 leaves in all; give them fewer");
    ends.push_back(total_);
  }
  bool is_even = true;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    is_even = is_even && share_of(total_, rank, ranks).count == counts[static_cast<std::size_t>(rank)];
  if (!is_even) ends_ = std::make_shared<const std::vector<int>>(std::move(ends));
}

Share LeafShares::of(int rank, int ranks) const {
  if (ends_ == nullptr) return share_of(total_, rank, ranks);
  const auto own = static_cast<std::size_t>(rank);
  const int first = rank == 0 ? 0 : (*ends_)[own - 1];
  return {first, (*ends_)[own] - first};
}

std::vector<int> LeafShares::counts(int ranks) const {
  std::vector<int> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(static_cast<int>(of(rank, ranks).count));
  return counts;
}

void LeafShares::require_replaceable_by(const LeafShares& others, int ranks) const {
  const int of_ranks = others.ranks() == 0 ? ranks : others.ranks();
  if (others.total() != 0 && others.total() == total() && of_ranks == ranks) return;
  throw Error(ErrorCode::invalid_argument, std::to_string(others.total()) + " shards of " + std::to_string(of_ranks) +
                                               " ranks cannot replace " + std::to_string(total()) + " shards of " +
                                               std::to_string(ranks) +
                                               " ranks: moving shards does not change their number");
}

std::strong_ordering operator<=>(const LeafShares& a, const LeafShares& b) {
  if (const auto totals = a.total_ <=> b.total_; totals != 0) return totals;
  if (a.ends_ == b.ends_) return std::strong_ordering::equal;
  if (a.ends_ == nullptr || b.ends_ == nullptr) return (b.ends_ == nullptr) <=> (a.ends_ == nullptr);
  return *a.ends_ <=> *b.ends_;
}

}  // namespace lockstep
