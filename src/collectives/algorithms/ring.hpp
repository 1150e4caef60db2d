// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/contribution.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/parts.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Ring all-reduce in the output: reduce-scatter around the ring, then all-gather. It is best for large buffers: no
/// rank sends more than 2(p−1)/p of the buffer, and only to its neighbor.
/// @param count  elements; need not divide by `ranks`
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution
/// @cost   2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ   (n in bytes)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009
Plan ring_all_reduce(Rank me, int ranks, Count count);

/// Returns its order of addition: the sum of chunk c starts on rank c+1, goes around the ring and ends on rank c.
/// @param contributions  one for each rank
Expression ring_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                 std::int64_t element);

/// Ring all-gather in the output: each part with elements goes once around the ring.
/// @pre    0 ≤ me < ranks; the output holds the rank's own part in its place
/// @cost   (p−1)α + (p−1)·nβ   (n in bytes per rank; if the parts differ, an upper bound with n of the longest)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_all_gather(Rank me, const Parts& parts);
inline Plan ring_all_gather(Rank me, int ranks, Count count) { return ring_all_gather(me, Parts::equal(ranks, count)); }

/// Ring reduce-scatter from the input (all parts, not written) to the output (the rank's own part). Partial sums use up
/// to twice the longest part of scratch. The output is written only when the rank's own part of input 0 is no longer
/// needed, so the two may be the same memory.
/// @param own    the rank's contribution; each of its leaves is an input with all parts
/// @pre    0 ≤ me < ranks
/// @cost   (p−1)α + (p−1)·nβ + (p−1)·nγ   (n in bytes per rank, with one leaf on each; if the parts differ, an upper
///         bound with n of the longest)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_reduce_scatter(Rank me, const Parts& parts, Contribution own = {});
inline Plan ring_reduce_scatter(Rank me, int ranks, Count count, Contribution own = {}) {
  return ring_reduce_scatter(me, Parts::equal(ranks, count), own);
}

/// Returns its order of addition: the sum of part c starts on rank c+1, goes around the ring and ends on rank c; each
/// rank adds its leaves one after the other.
/// @param leaves  the leaves of each rank
Expression ring_reduce_scatter_order(Expressions& expressions, std::span<const std::vector<Expression>> leaves,
                                     int part);

}  // namespace lockstep::collectives
