// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Dissemination barrier: in round k each rank signals the rank 2ᵏ above it. After ⌈log₂p⌉ rounds each rank has heard
/// from all others, directly or indirectly. The messages are signals: they have no elements.
/// @pre    0 ≤ me < ranks
/// @cost   ⌈log₂p⌉·α
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Hensgen, Finkel & Manber, Int. J. Parallel Programming 17(1), 1988
Plan dissemination_barrier(Rank me, int ranks);

}  // namespace lockstep::collectives
