// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/leaves.hpp"

#include <algorithm>
#include <numeric>

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

}  // namespace lockstep
