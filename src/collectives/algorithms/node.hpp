// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/cluster_shape.hpp"

/// Collectives of ranks that share memory. Instead of sending messages they publish that their data are ready, and read
/// them straight out of each other's memory.
///
/// Costs: α until a Publish is seen, β for each byte read from or written to another rank's memory.
namespace lockstep::collectives {

/// How the other ranks of a node access a rank's data. Ranks need not agree on direct or staged.
enum class Reach : std::uint8_t {
  direct,  ///< input and output are in memory that all of them can access
  staged,  ///< only the staging area is; data for other ranks are copied into it, and their data out of it
  pulled,  ///< staged, and every rank reduces everything itself, with a single synchronization; on all ranks or none
};

/// A rank's part in an all-reduce of its node.
struct NodePart {
  Reach reach = Reach::direct;                         ///< reach of its data
  bool in_place = false;                               ///< its own input is its output
  AdditionOrder order = AdditionOrder::left_to_right;  ///< order of addition; the same on all ranks
  LeafShares leaves{};  ///< the leaves of all ranks, in the canonical order, see `Leaves`; none: one each

  /// Returns which operands each of the ranks has: its leaves, or one.
  [[nodiscard]] LeafShares operands(int ranks) const { return leaves.total() > 0 ? leaves : LeafShares(ranks); }
};

/// All-reduce with a single synchronization: each rank publishes its whole contribution in its staging area, and
/// reduces all of them itself. It is best for small buffers.
///
/// A rank may begin the next operation while others still read its staging area, so two successive operations need two
/// areas. The third may reuse the first, since no rank is two operations ahead if all await all.
/// @param part  whose reach is unused
/// @pre    0 ≤ me < ranks; ranks share memory
/// @cost   α + (p−1)·nβ + (p−1)·nγ
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Li, Hoefler & Snir, NUMA-aware shared-memory collective communication for MPI, HPDC 2013
Plan pull_all_reduce(Rank me, int ranks, Count count, const NodePart& part);

/// Reduce-scatter: each rank reduces its part straight out of the others' inputs.
/// @param in_place  the rank's output is its part of its own input
/// @cost   2α (staged: α) + (p−1)·nβ + (p−1)·nγ, with n of the longest part
Plan node_reduce_scatter(Rank me, const Parts& parts, Reach reach, bool in_place);

/// All-gather: each rank copies every other rank's part out of its memory.
/// @param in_place  the rank's own part is in the output already
/// @cost   2α (staged: α) + (p−1)·nβ; if parts differ, with the sum of all but the shortest instead of (p−1)·n
Plan node_all_gather(Rank me, const Parts& parts, Reach reach, bool in_place);

/// Broadcast: all other ranks copy from the root at the same time; the root waits until they have, unless it is staged.
/// @cost   2α (staged, for the root: α) + nβ
Plan node_broadcast(Rank me, int ranks, Count count, Rank root, Reach reach);

/// Reduce: each rank reduces a slice straight out of the others' inputs, in the order of ranks, and writes it into the
/// root's output; no other output is touched.
/// @param in_place  at the root: its own input is its output
/// @cost   2α + nβ + (p−1)/p·nγ
Plan node_reduce(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place);

/// Gather: all other ranks write their parts into the root's output, or its staging area, at the same time.
/// @param count     elements of each part
/// @param reach     reach of the root's output; unused elsewhere
/// @param in_place  at the root: its own part is in its output already
/// @cost   2α + nβ
Plan node_gather(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place);

/// Scatter: all other ranks copy their parts out of the root's input at the same time.
/// @param reach     reach of the root's input; unused elsewhere
/// @param in_place  at the root: its output is its part of its input
/// @cost   2α + nβ (staged, for the root: 0)
Plan node_scatter(Rank me, int ranks, Count count, Rank root, Reach reach, bool in_place);

/// All-to-all: each rank copies its part out of every other's input, beginning with the next rank's, so that they do
/// not all read from the same rank. Input and output must not overlap.
/// @param count  elements of each part
/// @cost   2α (staged: α) + (p−1)·nβ
Plan node_all_to_all(Rank me, int ranks, Count count, Reach reach);

/// Barrier: each rank publishes its arrival and awaits all others.
/// @cost   α
Plan node_barrier(Rank me, int ranks);

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
