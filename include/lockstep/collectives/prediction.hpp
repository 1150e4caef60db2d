// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collectives/choice.hpp"
#include "lockstep/collectives/cost.hpp"
#include "lockstep/collectives/timeline.hpp"

namespace lockstep::collectives {

/// Prices of both media.
struct Prices {
  CostModel messages;
  Rates shared_memory;  ///< as in shared_memory_all_reduce_seconds
};

/// Prices to go by where nothing has been measured. Local messages: what 2 ranks of one node took per message, and per
/// byte beyond 64 KiB, with Open MPI 4.1 (docs/selection.md); shared memory: the same ranks. Remote messages: 5 µs, of
/// which a processor spends half a microsecond and the network the rest, and 25 Gbit/s, an Ethernet of the middling
/// kind. They order algorithms; they do not foretell a machine's times.
constexpr Prices default_prices() {
  return {
      .messages = {.local = {0.7e-6, 0.10e-9}, .remote = {5e-6, 0.32e-9, 4.5e-6}, .gamma_seconds_per_byte = 0.15e-9},
      .shared_memory = {0.2e-6, 0.02e-9, 0.03e-9}};
}

/// Seconds that the operation should take: the closed formula of one block (cost.hpp), and from the second block on the
/// time by which each block in flight follows the one before it, which is no shorter than the busiest port needs.
/// All messages count as remote where there are several nodes: a round is as slow as its slowest message. A
/// hierarchical all-reduce is one of shared memory in the fullest node, and one of messages by lanes of the emptiest
/// node's ranks.
/// @param bytes  of the buffer; of one part where there is one for each rank; of no meaning to a barrier
double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const ShapeSummary& shape,
                         const Prices& prices);

}  // namespace lockstep::collectives
