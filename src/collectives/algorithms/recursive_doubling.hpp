// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Recursive doubling in the output: partners at distance 1, 2, 4, … exchange all they have. Fewest rounds, hence best
/// for small buffers; ranks above a power of two are folded into their neighbors. With a radix above 2 it is recursive
/// multiplying: groups of up to `radix` exchange in one round what would take them log₂ of that many, which pays where
/// several messages are under way in the time of one latency. The sums are the same to the last bit.
/// Needs (radix−1)·count elements of scratch.
/// @param radix  the largest group; of a number that is no power of two the next lower one counts
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   log₂q·(α + nβ + nγ), q = the largest power of two ≤ p; 2α + 2nβ + nγ more where q < p.
///         With radix r about log_r q·(α + (r−1)(nβ + nγ)), where a port can hold r−1 messages at a time
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005; radix: Ruefenacht, Bull &
///         Booth, Parallel Computing 69, 2017
Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);

/// The order it adds in, the same for all elements: with r = p − q ranks too many, ranks 2i and 2i+1 (i < r) first form
/// a pair; then the q pairs and single ranks are added in a balanced tree: ((0+1)+2)+(3+4) for p = 5.
/// @param contributions  one for each rank
Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count count, std::int64_t element);

}  // namespace lockstep::collectives
