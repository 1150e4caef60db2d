// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

/// Binomial trees over buffers with one part for each rank, concatenated in the root's buffer. A message carries the
/// parts of a whole subtree, at most p/2. Inner ranks of the tree hold these parts side by side in scratch: at most p
/// parts on the root and p/2 elsewhere.
namespace lockstep::collectives {

/// Gather into the root's output, along the broadcast tree in the opposite direction, the smallest subtree first.
/// @param count     elements of each part
/// @param in_place  at the root: its own part is already in its output
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉α + (p−1)nβ   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_gather(Rank me, int ranks, Count count, Rank root, bool in_place);

/// Scatter from the root's input, which is not written, along the same tree downwards, the largest subtree first.
/// @param in_place  at the root: its output is its part of its input
/// @cost  as binomial_gather
Plan binomial_scatter(Rank me, int ranks, Count count, Rank root, bool in_place);

}  // namespace lockstep::collectives
