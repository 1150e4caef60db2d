// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/leaves.hpp"

#include <algorithm>

namespace lockstep {
namespace {

void add_nodes(std::vector<LeafNode>& nodes, const LeafNode& below, const std::function<bool(int)>& has) {
  bool whole = true;
  for (int leaf = below.first; leaf < below.first + below.leaves; ++leaf) whole = whole && has(leaf);
  if (whole) return nodes.push_back(below);
  if (below.leaves == 1) return;
  const int left = canonical_split(below.leaves);
  add_nodes(nodes, {below.first, left}, has);
  add_nodes(nodes, {below.first + left, below.leaves - left}, has);
}

}  // namespace

Share share_of(std::int64_t total, std::int64_t index, std::int64_t parts) {
  const std::int64_t size = total / parts;
  const std::int64_t longer = total % parts;
  return {index * size + std::min(index, longer), size + (index < longer ? 1 : 0)};
}

std::vector<LeafNode> tree_nodes(int leaves, const std::function<bool(int)>& has) {
  std::vector<LeafNode> nodes;
  if (leaves > 0) add_nodes(nodes, {0, leaves}, has);
  return nodes;
}

std::vector<LeafNode> tree_nodes(int leaves, const Share& share) {
  return tree_nodes(leaves, [&](int leaf) { return share.first <= leaf && leaf < share.end(); });
}

}  // namespace lockstep
