// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/algorithms/operations.hpp"

/// All-reduces of nodes with many cores, where a cache line comes from a core of the same cache much sooner than from
/// another one, and goes to one reader at a time. The ranks of each cache add up their contributions, then those sums
/// are added up between the caches of a node. A rank so deals with m − 1 ranks of its cache and with c − 1 ranks of
/// other caches, rather than with all p − 1 other ranks of its node.
namespace lockstep::collectives {

/// Returns whether an all_reduce adds up the ranks of each cache first: if `ranks_per_cache` divides the ranks of each
/// node into several caches with several ranks each. Unless it is pulled, all nodes must have the same number of ranks
/// and all caches, too, and each cache must be a subtree of the canonical tree. On one node, only algorithms of the
/// canonical order do so; on several nodes every hierarchical one, if each rank has one operand.
bool adds_by_cache(const CollectiveDescription& d, Algorithm algorithm);

/// Pulled: each rank publishes its contribution, reduces those of its cache's ranks itself and publishes the sums, and
/// reads the sums of each other cache from one rank there.
/// @cost   2α + (m+c−2)·nβ + (m+c−2)·nγ
///
/// Otherwise in slices: each rank of a cache reduces its slice of the buffer over the cache's ranks. The ranks of a
/// node that have the same slice, one in each cache, divide it among themselves. Each reduces its part, all-reduces it
/// with the ranks in its place on the other nodes, by messages, and writes it to those that have the same slice. Then
/// each rank writes its slice to the ranks of its cache.
/// @cost   4α + 2((m−1)/m + (c−1)/p)·nβ + ((m−1)/m + (c−1)/p)·nγ on a node of p ranks, and the algorithm between nodes
///         for n/p bytes
///
/// @pre    adds_by_cache(d, algorithm)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Jain, Kaleem et al., Framework for Scalable Intra-Node Collective Operations using Shared Memory, SC 2018
Plan all_reduce_by_cache(Rank me, const CollectiveDescription& d, Algorithm algorithm);

/// Returns its order of addition: the ranks of each node in the canonical order, then the sums of the nodes in the
/// order of the algorithm between nodes.
/// @param contributions  one for each rank
Expression by_cache_order(const CollectiveDescription& d, Algorithm algorithm, Expressions& expressions,
                          std::span<const Expression> contributions, std::int64_t element);

/// Returns how many sums the staging area of a rank holds beside its contribution, at most.
int sums_staged_by_cache(const CollectiveDescription& d, Algorithm algorithm);

/// The costs above on one node, which are exact if each cache has 2^k ranks and, in slices, the ranks divide the
/// elements.
double pull_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates);
double slices_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates);

}  // namespace lockstep::collectives
