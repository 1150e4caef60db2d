// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/contribution.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Binomial-tree broadcast of the root's output: in each round every rank that has the data sends them to a rank that
/// does not, the largest subtree first.
/// @param count  elements
/// @pre    0 ≤ me, root < ranks; the root's output holds the data
/// @cost   ⌈log₂p⌉(α + nβ)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Johnsson & Ho, IEEE Trans. Computers 38(9), 1989
Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root);

/// Binomial-tree reduce into the root's output: in each round every rank that has received all sums it waits for sends
/// its sum to its parent. It uses the broadcast tree in the opposite direction, the smallest subtree first. Only the
/// root's output is written; the other ranks have none. An inner rank of the tree adds in `count` elements of scratch.
/// @param count  elements
/// @param own    the rank's contribution; in_place is used at the root only
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉(α + nβ + nγ)   (one leaf on each rank)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_reduce(Rank me, int ranks, Count count, Rank root, Contribution own = {});

/// Returns its order of addition, the same for all elements. It needs a commutative operator, because the ranks are
/// labeled (rank − root) mod p: a label adds to its contribution the sums of label+1, label+2, label+4, … below it. For
/// p = 5 and root 0 the order is ((0+1)+(2+3))+4, for root 2 it is ((2+3)+(4+0))+1.
/// @param contributions  one for each rank
Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root);

}  // namespace lockstep::collectives
