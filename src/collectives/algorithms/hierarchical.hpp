// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "collectives/algorithms/node.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// Returns the plan of `me` for the all-reduce of a lane between `ranks` nodes, with messages.
using AcrossNodes = std::function<Plan(Rank me, int ranks, Count count)>;

/// Hierarchical all-reduce, one plan over both media. The ranks of a node reduce the buffer in slices, straight out of
/// each other's memory. Each slice is all-reduced between nodes with messages, in a lane of its own, so that several
/// ranks of a node send at a time. The sums are written into the memory of the node's ranks. There are as many lanes as
/// the smallest node has ranks: slice i belongs to local rank i of every node.
///
/// On one node there are no messages, and each rank writes its slice to all ranks in the pass that reduces it.
/// @pre    0 ≤ me < shape.ranks()
/// @cost   for s ranks a node, n bytes, L lanes: 2α + 2(s−1)/L·nβ + (s−1)/L·nγ in the node, plus the cost of `across`
///         for n/L bytes
/// @throws std::bad_alloc; nothing is communicated here
/// @source Träff & Hunold, Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020
Plan hierarchical_all_reduce(Rank me, const ClusterShape& shape, Count count, const AcrossNodes& across,
                             const NodePart& part);

/// Returns its order of addition: the ranks of each node from left to right, then the sums of the nodes in the order of
/// `across`.
/// @param across  order of addition of an element of a slice, over the sums of the nodes
Expression hierarchical_all_reduce_order(
    Expressions& expressions, std::span<const Expression> contributions, const ClusterShape& shape, Count count,
    std::int64_t element,
    const std::function<Expression(std::span<const Expression>, Count count, std::int64_t element)>& across);

/// Returns the number of lanes, which is the number of ranks of the smallest node.
int lanes(const ClusterShape& shape);

}  // namespace lockstep::collectives
