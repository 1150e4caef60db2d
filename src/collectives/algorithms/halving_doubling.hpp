// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Recursive halving, then recursive doubling, in the output: partners at distance 1, 2, 4, … exchange halves of what
/// they still hold, and then return the sums in the opposite order. The large halves go to near ranks. Among the
/// all-reduces that move no more bytes than a ring it needs the fewest messages. Ranks above a power of two are folded
/// into their neighbors. With a radix above 2, groups of up to `radix` ranks divide what they hold into as many parts
/// in one round: this moves the same bytes in fewer rounds of more messages, and gives bitwise equal sums. It then
/// needs up to `count` elements of scratch.
/// @param count  elements; need not be divisible
/// @param radix  the largest group; rounded down to a power of two
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ, q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With
///         radix r, log_r replaces log₂ if a port can hold r−1 messages at a time.
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; radix: Kolmakov & Zhang, A
///         Generalization of the Allreduce Operation, arXiv:2004.09362, 2020
Plan halving_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);

/// Returns its order of addition, the same for all elements: see `recursive_doubling_all_reduce_order`.
Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count count, std::int64_t element);

}  // namespace lockstep::collectives
