// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "collectives/algorithms/operations.hpp"

/// Collectives of ranks that share memory. Instead of sending messages they publish that their data are ready, and read
/// them straight out of each other's memory.
///
/// Costs: α until a Publish is seen, β for each byte read from or written to another rank's memory; nothing on one
/// rank.
namespace lockstep::collectives {

/// Returns the order in which the ranks of a node add.
constexpr AdditionOrder addition_order(Algorithm algorithm) {
  return is_canonical(algorithm) ? AdditionOrder::canonical : AdditionOrder::left_to_right;
}

/// Returns all of `ranks` but one.
inline std::vector<int> without(std::vector<int> ranks, int rank) {
  std::erase(ranks, rank);
  return ranks;
}

/// All-reduce with a single synchronization: each rank publishes its whole contribution in its staging area, and
/// reduces all of them itself. It is best for small buffers.
///
/// A rank may begin the next operation while others still read its staging area, so two successive operations need two
/// areas. The third may reuse the first, since no rank is two operations ahead if all await all.
/// @param algorithm  decides the order of addition
/// @pre    0 ≤ me < ranks; ranks share memory
/// @cost   α + (p−1)·nβ + (p−1)·nγ
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Li, Hoefler & Snir, NUMA-aware shared-memory collective communication for MPI, HPDC 2013
Plan pull_all_reduce(Rank me, const CollectiveDescription& d, Algorithm algorithm);
/// The cost is exact.
double pull_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Reduce-scatter: each rank reduces its part straight out of the others' inputs. In place, the rank's output is its
/// part of its own input.
/// @cost   2α (staged: α) + (p−1)·nβ + (p−1)·nγ, with n of the longest part
Plan node_reduce_scatter(Rank me, const CollectiveDescription& d);

/// All-gather: each rank copies every other rank's part out of its memory. In place, the rank's own part is in the
/// output already.
/// @cost   2α (staged: α) + (p−1)·nβ; if parts differ, with the sum of all but the shortest instead of (p−1)·n
Plan node_all_gather(Rank me, const CollectiveDescription& d);

/// Broadcast: all other ranks copy from the root at the same time; the root waits until they have, unless it is staged.
/// @cost   2α (staged, for the root: α) + nβ
Plan node_broadcast(Rank me, const CollectiveDescription& d);

/// Reduce: each rank reduces a slice straight out of the others' inputs, in the order of ranks, and writes it into the
/// root's output; no other output is touched.
/// @cost   2α + nβ + (p−1)/p·nγ
Plan node_reduce(Rank me, const CollectiveDescription& d);

/// Gather: all other ranks write their parts into the root's output, or its staging area, at the same time. Only the
/// reach of the root's output matters.
/// @cost   2α + nβ, like a broadcast
Plan node_gather(Rank me, const CollectiveDescription& d);

/// Scatter: all other ranks copy their parts out of the root's input at the same time. Only the reach of the root's
/// input matters.
/// @cost   2α + nβ (staged, for the root: 0), like a broadcast
Plan node_scatter(Rank me, const CollectiveDescription& d);

/// All-to-all: each rank copies its part out of every other's input, beginning with the next rank's, so that they do
/// not all read from the same rank. Input and output must not overlap.
/// @cost   2α (staged: α) + (p−1)·nβ, like an all-gather
Plan node_all_to_all(Rank me, const CollectiveDescription& d);

/// Scan, inclusive or exclusive: each rank reduces the inputs of the ranks before it straight out of their memory, in
/// the order of ranks. In place, where others read its input, it puts the result into scratch until they have.
/// @cost   2α + (p−1)·nβ + (p−1)·nγ; exclusive: (p−2)·nγ
Plan node_scan(Rank me, const CollectiveDescription& d);

/// Barrier: each rank publishes its arrival and awaits all others.
/// @cost   α
Plan node_barrier(Rank me, const CollectiveDescription& d);

/// Hierarchical all-reduce, one plan over both media. The ranks of a node reduce the buffer in slices, straight out of
/// each other's memory. Each slice is all-reduced between nodes with messages, in a lane of its own, so that several
/// ranks of a node send at a time. The sums are written into the memory of the node's ranks. There are as many lanes as
/// the smallest node has ranks: slice i belongs to local rank i of every node.
///
/// On one node there are no messages, and each rank writes its slice to all ranks in the pass that reduces it.
/// @param algorithm  decides the messages between nodes and the order of addition
/// @pre    0 ≤ me < ranks
/// @cost   for s ranks a node, n bytes, L lanes: 2α + 2(s−1)/L·nβ + (s−1)/L·nγ in the node, plus the cost of the
///         algorithm between nodes for n/L bytes
/// @throws std::bad_alloc; nothing is communicated here
/// @source Träff & Hunold, Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020
Plan hierarchical_all_reduce(Rank me, const CollectiveDescription& d, Algorithm algorithm);
/// The cost on one node. It is exact if p divides the elements.
double shared_memory_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns its order of addition: the ranks of each node from left to right, then the sums of the nodes in the order of
/// the algorithm between nodes.
Expression hierarchical_all_reduce_order(Algorithm algorithm, Expressions& expressions,
                                         std::span<const Expression> contributions, Count count, std::int64_t element,
                                         const ClusterShape& shape);

/// Returns the contributions of the ranks of each node.
/// @param contributions  one for each rank
std::vector<std::vector<Expression>> by_node(std::span<const Expression> contributions, const ClusterShape& shape);

/// Returns the number of lanes, which is the number of ranks of the smallest node.
int lanes(const ClusterShape& shape);

}  // namespace lockstep::collectives
