// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep {

/// Says which node each rank lives on; nodes are numbered in the order of their lowest rank.
struct ClusterShape {
  std::vector<int> node_of_rank;

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_rank.size()); }
  [[nodiscard]] int nodes() const;
  /// Ranks on one node, ascending.
  [[nodiscard]] std::vector<int> ranks_on(int node) const;
};

}  // namespace lockstep
