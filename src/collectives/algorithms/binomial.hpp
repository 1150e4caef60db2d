// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/contribution.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Binomial-tree broadcast of the root's output: in each round every rank that has the data sends them to one that has
/// not, the largest subtree first.
/// @param count  elements
/// @pre    0 ≤ me, root < ranks; the root's output holds the data
/// @cost   ⌈log₂p⌉(α + nβ)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Johnsson & Ho, IEEE Trans. Computers 38(9), 1989
Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root);

/// Binomial-tree reduce into the root's output: in each round every rank that has no more to wait for hands its sum to
/// one that goes on. The same tree as the broadcast's, upwards, the smallest subtree first. Only the root's output is
/// written; the other ranks have none. A rank between the root and the leaves of the tree adds in `count` elements of
/// scratch.
/// @param count  elements
/// @param own    what the rank brings; in place has no meaning but at the root
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉(α + nβ + nγ)   (one leaf on each rank)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_reduce(Rank me, int ranks, Count count, Rank root, Contribution own = {});

/// The order it adds in, the same for all elements; it needs a commutative operator, as the ranks are counted from the
/// root on: with labels (rank − root) mod p, a label adds to its contribution the sums of label+1, label+2, label+4, …
/// below it. For p = 5 and root 0 ((0+1)+(2+3))+4, for root 2 ((2+3)+(4+0))+1.
/// @param contributions  one for each rank
Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root);

}  // namespace lockstep::collectives
