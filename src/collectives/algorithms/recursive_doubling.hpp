// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Recursive doubling in the output: partners at distance 1, 2, 4, … exchange all they have. It has the fewest rounds
/// and is therefore best for small buffers; ranks above a power of two are folded into their neighbors. With a radix
/// above 2 it is recursive multiplying: groups of up to `radix` ranks exchange in one round what would take log₂ of
/// that many rounds, which pays off if several messages are in flight within one latency. The sums are bitwise equal.
/// It needs (radix−1)·count elements of scratch.
/// @param radix  the largest group; rounded down to a power of two
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   log₂q·(α + nβ + nγ), q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With radix r about
///         log_r q·(α + (r−1)(nβ + nγ)) if a port can hold r−1 messages at a time.
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005; radix: Ruefenacht, Bull &
///         Booth, Parallel Computing 69, 2017
Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);

/// Returns its order of addition, the same for all elements: with r = p − q extra ranks, ranks 2i and 2i+1 (i < r)
/// first form a pair; then the q pairs and single ranks are added in a balanced tree: ((0+1)+2)+(3+4) for p = 5.
/// @param contributions  one for each rank
Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count count, std::int64_t element);

}  // namespace lockstep::collectives
