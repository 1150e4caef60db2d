#pragma once

#include <span>

#include "lockstep/collectives/expression.hpp"
#include "lockstep/collectives/plan.hpp"

namespace lockstep::collectives {

/// Recursive doubling in the output: partners at distance 1, 2, 4, … exchange all they have. Fewest rounds, hence best
/// for small buffers; ranks above a power of two are folded into their neighbours. Needs `count` elements of scratch.
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution
/// @cost   log₂q·(α + nβ + nγ), q = the largest power of two ≤ p; 2α + 2nβ + nγ more where q < p
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count);

/// The order it adds in, the same for all elements: with r = p − q ranks too many, ranks 2i and 2i+1 (i < r) first form
/// a pair; then the q pairs and single ranks are added in a balanced tree: ((0+1)+2)+(3+4) for p = 5.
/// @param contributions  one for each rank
Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count count, std::int64_t element);

}  // namespace lockstep::collectives
