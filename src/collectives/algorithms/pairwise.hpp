// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/parts.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Pairwise exchange from the input (`ranks` parts of `count` elements, not written) to the output (the same number):
/// in round k each rank sends to the one k above and receives from the one k below. No round waits for the one before:
/// all are in the order in which no rank is sent to by two others at a time, and an executor may have them under way
/// together. Input and output must not overlap.
/// @param count  elements of each part
/// @pre    0 ≤ me < ranks
/// @cost   (p−1)(α + nβ)   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan pairwise_all_to_all(Rank me, int ranks, Count count);

/// The same with parts of different lengths. A message of no elements is sent and received, so that both ends see that
/// they agree; one of −1 elements is not there.
/// @param sent      of the input, to each rank
/// @param received  of the output, from each; its stride is the same
Plan pairwise_all_to_all_v(Rank me, const Parts& sent, const Parts& received);

}  // namespace lockstep::collectives
