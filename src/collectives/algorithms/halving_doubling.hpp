// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/plan/sliced.hpp"

namespace lockstep::collectives {

/// Recursive halving, then recursive doubling, in the output: partners at distance 1, 2, 4, … exchange halves of what
/// they still hold, and then give it back in the opposite order. The large halves go to near ranks. Fewest messages for
/// an all-reduce that moves no more bytes than a ring; ranks above a power of two are folded into their neighbors.
/// With a radix above 2, groups of up to `radix` split what they hold into as many parts in one round: the same bytes
/// in fewer rounds of more messages, and the same sums to the last bit. Then it needs up to `count` elements of
/// scratch.
/// @param count  elements; need not divide by anything
/// @param radix  the largest group; of a number that is no power of two the next lower one counts
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ, q = the largest power of two ≤ p; 2α + 2nβ + nγ more where q < p.
///         With radix r log_r instead of log₂, where a port can hold r−1 messages at a time
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; radix: Kolmakov & Zhang, A
///         Generalization of the Allreduce Operation, arXiv:2004.09362, 2020
Plan halving_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);
/// The same in halves. A rank that is folded into its neighbor has an empty slice.
SlicedAllReduce halving_doubling_in_halves(Rank me, int ranks, Count count, int radix = 2);

/// The order it adds in, the same for all elements: see `recursive_doubling_all_reduce_order`.
Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count count, std::int64_t element);

}  // namespace lockstep::collectives
