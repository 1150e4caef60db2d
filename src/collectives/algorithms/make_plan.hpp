// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "collectives/algorithms/algorithm.hpp"
#include "collectives/algorithms/description.hpp"
#include "collectives/algorithms/operations.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// Returns whether the operation can use shared memory.
inline bool may_share_memory(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || row_of(kind).shared_plan != nullptr;
}

/// Returns whether the operation uses shared memory. Only all-reduces are hierarchical; other operations use messages
/// with these algorithms.
inline bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  if (kind == CollectiveKind::all_reduce) return uses_shared_memory(algorithm);
  return algorithm == Algorithm::shared_memory && may_share_memory(kind);
}

/// Returns the plan of one block of `description.count` elements: contributions, then the exchange.
/// @param algorithm  for all_reduce; for other operations only whether it uses shared memory
/// @throws std::bad_alloc only
Plan make_plan(Rank me, const CollectiveDescription& description, Algorithm algorithm);

/// Returns the order in which `algorithm` claims to add `element` of a block of `count` elements, by the function
/// beside the algorithm.
/// @param contributions  one for each rank
/// @param shape          as in CollectiveDescription
Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape = {});

}  // namespace lockstep::collectives
