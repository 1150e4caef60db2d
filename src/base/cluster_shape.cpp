// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cluster_shape.hpp"

#include <algorithm>

namespace lockstep {

int ClusterShape::nodes() const {
  return node_of_rank.empty() ? 0 : 1 + *std::max_element(node_of_rank.begin(), node_of_rank.end());
}

std::vector<int> ClusterShape::ranks_on(int node) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < this->ranks(); ++rank) {
    if (node_of_rank[static_cast<std::size_t>(rank)] == node) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace lockstep
