// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/socket_partners.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace lockstep::backends {

std::vector<int> ranks_by_socket(const ClusterShape& shape, Rank me, Sockets sockets) {
  const Place here = place_of(shape, me);
  std::vector<int> ranks;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const bool is_here = shape.node_of_rank[static_cast<std::size_t>(rank)] == here.node;
    if (rank != me.value && (!is_here || sockets == Sockets::everywhere)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> socket_partners(const ClusterShape& shape, Rank me, Sockets sockets) {
  constexpr int few = 32;
  std::vector<int> partners = ranks_by_socket(shape, me, sockets);
  if (shape.ranks() <= few && sockets != Sockets::everywhere) return partners;
  const Place here = place_of(shape, me);
  std::vector<int> local_rank;  // of each rank
  std::vector<int> ranks_of_node(static_cast<std::size_t>(shape.nodes()));
  for (const int node : shape.node_of_rank) local_rank.push_back(ranks_of_node[static_cast<std::size_t>(node)]++);
  const auto is_power_of_two = [](int distance) { return std::has_single_bit(static_cast<unsigned>(distance)); };
  std::erase_if(partners, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const bool is_in_lane =
        local_rank[index] == here.local_rank && is_power_of_two(std::abs(shape.node_of_rank[index] - here.node));
    return !is_in_lane && !is_power_of_two(std::abs(rank - me.value));
  });
  return partners;
}

}  // namespace lockstep::backends
