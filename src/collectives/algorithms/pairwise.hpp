// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/parts.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Pairwise exchange from the input (`ranks` parts of `count` elements, not written) to the output (the same number):
/// in round k each rank sends to the rank k above and receives from the rank k below. No round waits for the previous
/// one, and an executor may have all in flight together; their order only prevents that two ranks send to the same rank
/// at a time. Input and output must not overlap.
/// @param count  elements of each part
/// @pre    0 ≤ me < ranks
/// @cost   (p−1)(α + nβ)   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan pairwise_all_to_all(Rank me, int ranks, Count count);

/// The same exchange with parts of different lengths. A message without elements is sent and received, so that both
/// ranks detect different counts; a count of −1 means that there is no message.
/// @param sent      parts of the input, one for each rank to send to
/// @param received  parts of the output, one for each rank to receive from; the stride is the same
Plan pairwise_all_to_all_v(Rank me, const Parts& sent, const Parts& received);

}  // namespace lockstep::collectives
