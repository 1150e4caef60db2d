// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

/// Binomial trees over parts, one for each rank, that lie one behind the other in the root's buffer. A message carries
/// the parts of a whole subtree, at most p/2; away from the leaves of the tree they lie side by side in scratch, at
/// most p parts of it on the root and p/2 elsewhere.
namespace lockstep::collectives {

/// Gather into the root's output: the broadcast's tree upwards, the smallest subtree first.
/// @param count     elements of each part
/// @param in_place  of the root: its own part lies in its output already
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉α + (p−1)nβ   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_gather(Rank me, int ranks, Count count, Rank root, bool in_place);

/// Scatter out of the root's input, which is not written: the same tree downwards, the largest subtree first.
/// @param in_place  of the root: its output is its part of its input
/// @cost  as binomial_gather
Plan binomial_scatter(Rank me, int ranks, Count count, Rank root, bool in_place);

}  // namespace lockstep::collectives
