// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/cost.hpp"

namespace lockstep::collectives {

/// The cost of a link: a message of n bytes arrives after α + nβ and occupies the ports for that time minus
/// `wire_seconds`. Between nodes, β belongs to the node's link, which its ranks share in each direction; the rest of α
/// belongs to each rank.
struct LinkCost {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< part of α for which the message travels and the ports are free
};

/// The α–β–γ model with LogP's distinction between overhead and latency. Copies and fills inside a rank are free, as in
/// the literature. Between ranks that share memory a Publish is visible after the local α, and the bytes that a Combine
/// reads from or writes to the others cost the local β.
struct CostModel {
  LinkCost local;                     ///< between ranks of one node
  LinkCost remote;                    ///< between nodes
  double gamma_seconds_per_byte = 0;  ///< for additions
};

/// Costs of both media.
struct Prices {
  CostModel messages;
  Rates shared_memory;  ///< α until another rank sees a publish, β for reading or writing its memory
};

/// Default costs. Local messages: measured with 2 ranks of one node per message, and per byte beyond 64 KiB, with Open
/// MPI 4.1 (docs/selection.md); shared memory: the same ranks. Remote messages: an average Ethernet of 25 Gbit/s and 5
/// µs, of which the processor spends half a microsecond. They rank algorithms and do not predict the times of a
/// machine.
constexpr Prices default_prices() {
  return {
      .messages = {.local = {0.7e-6, 0.10e-9}, .remote = {5e-6, 0.32e-9, 4.5e-6}, .gamma_seconds_per_byte = 0.15e-9},
      .shared_memory = {0.2e-6, 0.02e-9, 0.03e-9}};
}

}  // namespace lockstep::collectives
