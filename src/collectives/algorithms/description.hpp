// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithms/schedule.hpp"
#include "collectives/plan/parts.hpp"

/// What follows from a description for its plan and its blocks alike.
namespace lockstep::collectives {

/// A hierarchy is of all-reduces; other operations send messages there. So do ranks that know only what they themselves
/// send and receive: they cannot cut all pairs' parts into the same blocks.
inline bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  return uses_shared_memory(algorithm) && kind != CollectiveKind::all_to_all_v &&
         (algorithm == Algorithm::shared_memory || is_all_reduce(kind));
}

inline ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

inline Parts parts_of(const CollectiveDescription& d) {
  return d.parts.empty() ? Parts::equal(d.ranks, d.count) : Parts(d.count, d.parts);
}

}  // namespace lockstep::collectives
