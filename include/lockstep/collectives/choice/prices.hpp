// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::collectives {

/// A link's price: a message of n bytes arrives after α + nβ, and occupies the ports for that time less `wire_seconds`.
/// Between nodes β is of the node's link, which carries one byte at a time in each direction, whoever of its ranks
/// sends; the rest of α is each rank's own.
struct LinkCost {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< of α: for how long the message is on its way, and the ports are free for the next
};

/// α–β–γ model, with LogP's distinction between what a message keeps busy and what it merely waits for. Copies and
/// fills inside a rank are free, as the literature has it. Between ranks that share memory a Publish is seen after the
/// local α, and what a Combine reads from or writes to the others costs the local β.
struct CostModel {
  LinkCost local;                     ///< between ranks of one node
  LinkCost remote;                    ///< between nodes
  double gamma_seconds_per_byte = 0;  ///< of adding
};

/// Prices of one rank's ports and adder where all links are alike.
struct Rates {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double gamma_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< of α, as in LinkCost
};

/// Prices of both media.
struct Prices {
  CostModel messages;
  Rates shared_memory;  ///< α until another rank sees what is published, β of reading or writing its memory
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

}  // namespace lockstep::collectives
