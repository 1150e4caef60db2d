// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/algorithm.hpp"
#include "lockstep/base/types.hpp"

/// Closed formulas for the cost of one block alone. Tests compare them with the simulator up to 1,024 ranks.
/// `predicted_seconds` extends them to blocks and nodes and predicts the time of an operation on a cluster.
///
/// If no part of α is wire time, several equal blocks of a ring, halving-doubling or recursive doubling keep every port
/// busy from the first message to the last. Blocks in flight together can then hide additions only, so that they cost
/// at most their sum, and exactly that for γ = 0.
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

/// Costs of one rank's ports and adder if all links are alike.
struct Rates {
  double alpha_seconds = 0;
  double beta_seconds_per_byte = 0;
  double gamma_seconds_per_byte = 0;
  double wire_seconds = 0;  ///< part of α, as in LinkCost
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

/// Returns 2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ. It is exact if p divides the elements; otherwise the value for n rounded
/// up to a multiple is an upper bound.
double ring_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns 4h(α + nβ/2) + h·nγ with h = ⌈log₂p⌉. It is an upper bound, since ports idle if only one child sends. For
/// two ranks it is twice the exact cost.
double double_tree_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns 2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ with q the largest power of two ≤ p, plus 2α + 2nβ + nγ if q < p; α and
/// β belong to the link at each round's distance. If all links are alike it is exact if q divides the elements;
/// otherwise the value for n rounded up to a multiple is an upper bound. With a radix above 2, g − 1 messages in a
/// round of g ranks replace log₂g rounds, and cost (g − 1)·α minus all but one of their wire_seconds, which overlap.
/// This is exact if additions are free and p is a power of two; for other p up to 64 it is at most a quarter too low
/// and a twentieth too high.
double halving_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix = 2);

/// Returns log₂q·(α + nβ + nγ) with q the largest power of two ≤ p, plus 2α + 2nβ + nγ if q < p; links as in
/// halving_doubling_all_reduce_seconds. It is exact if all links are alike. With a radix above 2 a round of g ranks
/// costs (g − 1)·(α + nβ + nγ) − (g − 2)·wire_seconds, which is exact if additions are free and p is a power of two.
/// Additions may take less, since the first message can be added while others are on the wire.
double recursive_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix = 2);

/// Returns the cost of halving-doubling for the largest binary block of 2^a ranks, plus 2·2^(a−b)α + 2·2⁻ᵇnβ + 2⁻ᵃnγ
/// over far links for each pair of neighboring blocks of 2^a > 2^b ranks. It is exact for powers of two that divide the
/// elements. Otherwise it is an estimate: since blocks work concurrently, the cost is between half of it and a tenth
/// more.
double tree_order_all_reduce_seconds(int ranks, Bytes buffer, const Links& links);

/// Returns 2α + 2(p−1)/p·nβ + (p−1)/p·nγ for p > 1 ranks of one node with shared buffers; β is for reading and writing
/// another rank's memory. It is exact if p divides the elements.
double shared_memory_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns α + (p−1)(nβ + nγ) for p > 1 ranks of one node. It is exact.
double pull_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns the cost by the formula of an algorithm, on one node for those that use shared memory. Rings and trees pass
/// the buffer from rank to rank and are computed as if all links were far ones.
double all_reduce_seconds(Algorithm algorithm, int ranks, Bytes buffer, const Links& links, int radix = 2);

/// Returns ⌈log₂p⌉(α + nβ). It is exact.
double binomial_broadcast_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns (p−1)(α + nβ) with n the bytes of one rank's part. It is exact.
double ring_all_gather_seconds(int ranks, Bytes part, const Rates& rates);

/// Returns (p−1)(α + nβ + nγ) with n the bytes of one rank's part. It is exact if each rank contributes one leaf.
double ring_reduce_scatter_seconds(int ranks, Bytes part, const Rates& rates);

/// Returns ⌈log₂p⌉(α + nβ + nγ). It is exact if each rank contributes one leaf.
double binomial_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// Returns ⌈log₂p⌉α + (p−1)nβ with n the bytes of one part. It is exact, also for a scatter.
double binomial_gather_seconds(int ranks, Bytes part, const Rates& rates);

/// Returns (p−1)(α + nβ) minus all but one of the messages' wire_seconds, with n the bytes of one part. It is exact.
double pairwise_all_to_all_seconds(int ranks, Bytes part, const Rates& rates);

/// Returns ⌈log₂p⌉·α. It is exact.
double dissemination_barrier_seconds(int ranks, const Rates& rates);

}  // namespace lockstep::collectives
