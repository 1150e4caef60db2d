// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithms/schedule.hpp"
#include "collectives/plan/parts.hpp"

/// Properties of a description that both its plan and its blocks depend on.
namespace lockstep::collectives {

/// Returns whether the operation uses shared memory. Only all-reduces are hierarchical; other operations use messages
/// with these algorithms. An all_to_all_v always uses messages, because a rank knows only its own counts, so the ranks
/// cannot divide the parts of all pairs into the same blocks.
inline bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  return uses_shared_memory(algorithm) && kind != CollectiveKind::all_to_all_v &&
         (algorithm == Algorithm::shared_memory || kind == CollectiveKind::all_reduce);
}

inline ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

inline Parts parts_of(const CollectiveDescription& d) {
  return d.parts.empty() ? Parts::equal(d.ranks, d.count) : Parts(d.count, d.parts);
}

}  // namespace lockstep::collectives
