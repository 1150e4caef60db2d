// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collectives/choice/choice.hpp"
#include "lockstep/collectives/choice/prices.hpp"

namespace lockstep::collectives {

/// Seconds that the operation should take: the closed formula of one block (cost.hpp), and from the second block on the
/// time by which each block in flight follows the one before it, which is no shorter than the busiest port needs.
/// All messages count as remote where there are several nodes: a round is as slow as its slowest message. A
/// hierarchical all-reduce is one of shared memory in the fullest node, and one of messages by lanes of the emptiest
/// node's ranks.
/// @param bytes  of the buffer; of one part where there is one for each rank; of no meaning to a barrier
double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const ShapeSummary& shape,
                         const Prices& prices);

}  // namespace lockstep::collectives
