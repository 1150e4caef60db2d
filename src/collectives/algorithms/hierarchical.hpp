// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "collectives/algorithms/node.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// The all-reduce that the lanes run across nodes: a plan of `me` among `ranks`, over messages.
using AcrossNodes = std::function<Plan(Rank me, int ranks, Count count)>;

/// Hierarchical all-reduce, one plan over both media: the ranks of a node add up the buffer in slices, straight out of
/// each other's memory; each slice is all-reduced across nodes by messages, in a lane of its own, so that as many ranks
/// of a node send at a time as there are lanes; the sums are written into the memory of the node's ranks. There are as
/// many lanes as the smallest node has ranks: slice i belongs to local rank i of every node.
///
/// On one node there are no messages, and each rank writes its slice to all in the pass that adds it up.
/// @pre    0 ≤ me < shape.ranks()
/// @cost   for s ranks a node, n bytes, L lanes: 2α + 2(s−1)/L·nβ + (s−1)/L·nγ in the node, and what `across` costs for
///         n/L bytes
/// @throws std::bad_alloc; nothing is communicated here
/// @source Träff & Hunold, Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020
Plan hierarchical_all_reduce(Rank me, const ClusterShape& shape, Count count, const AcrossNodes& across,
                             const NodePart& part);

/// The same with a function applied to each slice, or piece of a slice, where its sum is complete: before it is handed
/// out on one node, between the halves of the exchange across several.
/// @param across  a reduce_then among the nodes, also of one: a plan whose contributions lie where `sums_of` says
Plan hierarchical_reduce_then(Rank me, const ClusterShape& shape, Count count, const AcrossNodes& across,
                              const NodePart& part);

/// The order it adds in from left to right: the ranks of each node, then the nodes' sums as `across` has it.
/// @param across  the order of an element of a slice, over the nodes' sums
Expression hierarchical_all_reduce_order(
    Expressions& expressions, std::span<const Expression> contributions, const ClusterShape& shape, Count count,
    std::int64_t element,
    const std::function<Expression(std::span<const Expression>, Count count, std::int64_t element)>& across);

/// How many lanes there are: the ranks of the smallest node.
int lanes(const ClusterShape& shape);

}  // namespace lockstep::collectives
