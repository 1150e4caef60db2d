// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/types.hpp"

/// The terms of the closed formulas beside each algorithm: what one block costs alone. `predicted_seconds` extends them
/// to blocks and nodes and predicts the time of an operation on a cluster.
///
/// If no part of α is wire time, several equal blocks of a ring, halving-doubling or recursive doubling keep every port
/// busy from the first message to the last. Blocks in flight together can then hide additions only, so that they cost
/// at most their sum, and exactly that for γ = 0.
namespace lockstep::collectives {

/// Costs of one rank's ports and adder if all links are alike.
struct Rates {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double gamma_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< part of α for which the message travels and the ports are free
};

/// The cost of exchanges by their distance, the difference of the partners' ranks. Distances below `near_ranks` use
/// `near`, others use `far`, whose link up to `sharing` ranks of a node share equally. Up to half of the ranks of a
/// group that exchanges have partners on other nodes.
struct Links {
  Rates near;
  Rates far;
  Rates folding;       ///< between ranks 2i and 2i + 1
  int near_ranks = 1;  ///< a power of two
  int sharing = 1;
};

/// Returns links whose rates are all equal.
inline Links alike(const Rates& rates) { return {.near = rates, .far = rates, .folding = rates}; }

/// Returns α·messages + β·moved + γ·added, the last two in buffers of `n`.
inline double price(const Rates& rates, Bytes n, double messages, double moved, double added) {
  const auto bytes = static_cast<double>(n.value);
  return messages * rates.alpha_seconds + moved * bytes * rates.beta_seconds_per_byte +
         added * bytes * rates.gamma_seconds_per_byte;
}

/// What an operation costs: messages one after the other, buffers moved and added, and how many of the messages are on
/// the wire at the same time as another one.
struct Cost {
  double messages = 0;
  double moved = 0;
  double added = 0;
  double hidden = 0;
};

inline double seconds(const Cost& cost, Bytes n, const Rates& rates) {
  return price(rates, n, cost.messages, cost.moved, cost.added) - cost.hidden * rates.wire_seconds;
}

/// Returns how long messages of `share` of the buffer to `others` ranks occupy the port, including the additions if
/// `adds`.
inline double port_seconds(const Rates& rates, Bytes n, double others, double share, bool adds) {
  return price(rates, n, others, others * share, adds ? others * share : 0) - others * rates.wire_seconds;
}

}  // namespace lockstep::collectives
