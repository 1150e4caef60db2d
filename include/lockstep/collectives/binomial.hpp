#pragma once

#include "lockstep/collectives/plan.hpp"

namespace lockstep::collectives {

/// Binomial-tree broadcast of the root's output: in each round every rank that has the data sends them to one that has
/// not, the largest subtree first.
/// @param count  elements
/// @pre    0 ≤ me, root < ranks; the root's output holds the data
/// @cost   ⌈log₂p⌉(α + nβ)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Johnsson & Ho, IEEE Trans. Computers 38(9), 1989
Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root);

}  // namespace lockstep::collectives
