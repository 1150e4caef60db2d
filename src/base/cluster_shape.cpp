// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cluster_shape.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "lockstep/base/error.hpp"

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

ClusterShape number_nodes(std::span<const int> node_identities) {
  ClusterShape shape;
  shape.node_of_rank.reserve(node_identities.size());
  std::map<int, int> numbers;
  for (const int identity : node_identities) {
    const auto next = static_cast<int>(numbers.size());
    shape.node_of_rank.push_back(numbers.try_emplace(identity, next).first->second);
  }
  return shape;
}

Place place_of(const ClusterShape& shape, Rank rank) {
  if (rank < 0 || rank >= shape.ranks()) {
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank.value) + " is not in a cluster of " +
                                                 std::to_string(shape.ranks()) + " ranks");
  }
  const auto self = shape.node_of_rank.begin() + rank.value;
  return {.node = *self,
          .local_rank = static_cast<int>(std::count(shape.node_of_rank.begin(), self, *self)),
          .local_size = static_cast<int>(std::count(shape.node_of_rank.begin(), shape.node_of_rank.end(), *self))};
}

}  // namespace lockstep
