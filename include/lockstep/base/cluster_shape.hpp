// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// The node of each rank; nodes are numbered in the order of their lowest rank.
struct ClusterShape {
  std::vector<int> node_of_rank;

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_rank.size()); }
  [[nodiscard]] int nodes() const;
  /// Ranks on one node, ascending.
  [[nodiscard]] std::vector<int> ranks_on(int node) const;
};

/// The position of a rank in its cluster.
struct Place {
  int node = 0;        ///< index of its node; nodes are numbered in the order of their lowest rank
  int local_rank = 0;  ///< its number among the ranks of the node, in the order of global ranks
  int local_size = 1;  ///< ranks on the node
};

/// Numbers nodes by first appearance.
/// @param node_identities  one for each rank; equal if and only if two ranks share a node
ClusterShape number_nodes(std::span<const int> node_identities);

/// @throws Error{invalid_argument} if `rank` is not in `shape`
Place place_of(const ClusterShape& shape, Rank rank);

}  // namespace lockstep
