// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/operations.hpp"

/// All-reduces of the ranks of a node with many cores, where a cache line comes from a core of the same cache much
/// sooner than from another one, and goes to one reader at a time. The ranks of each cache add up their contributions,
/// then those sums are added up between the caches. A rank so deals with m − 1 ranks of its cache and c − 1 ranks of
/// other caches rather than with p − 1 ranks. The order of addition is the canonical one, wherever the ranks run.
namespace lockstep::collectives {

/// Returns whether an all_reduce adds up the ranks of each cache first: in the canonical order on one node, if
/// `ranks_per_cache` divides the ranks into several caches with several ranks each. Unless it is pulled, the caches
/// must have the same number of ranks, and each must be a subtree of the canonical tree.
bool adds_by_cache(const CollectiveDescription& d, Algorithm algorithm);

/// Pulled: each rank publishes its contribution, reduces those of its cache's ranks itself and publishes the sums, and
/// reads the sums of each other cache from one rank there.
/// @cost   2α + (m+c−2)·nβ + (m+c−2)·nγ
///
/// Otherwise in slices: each rank of a cache reduces its slice of the buffer over the cache's ranks. The ranks that
/// have the same slice, one in each cache, divide it among themselves, and each writes what it reduces to all of them.
/// Then each rank writes its slice to the ranks of its cache.
/// @cost   4α + 2((m−1)/m + (c−1)/p)·nβ + ((m−1)/m + (c−1)/p)·nγ
///
/// @pre    adds_by_cache(d, …)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Jain, Kaleem et al., Framework for Scalable Intra-Node Collective Operations using Shared Memory, SC 2018
Plan all_reduce_by_cache(Rank me, const CollectiveDescription& d);

/// Returns how many sums the staging area of a rank holds beside its contribution, at most.
int sums_staged_by_cache(const CollectiveDescription& d, Algorithm algorithm);

/// The costs above, which are exact if each cache has 2^k ranks and, in slices, the ranks divide the elements.
double pull_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates);
double slices_by_cache_seconds(int ranks, int ranks_per_cache, Bytes buffer, const Rates& rates);

}  // namespace lockstep::collectives
