// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/types.hpp"
#include "lockstep/collectives/algorithms/algorithm.hpp"
#include "lockstep/collectives/choice/prices.hpp"

/// Closed formulas for the price of one block alone. Tests hold them against the simulator up to 1,024 ranks. Whoever
/// wants to know what an operation takes on a cluster asks `predicted_seconds`, which knows blocks and nodes.
///
/// Several equal blocks of a ring, halving-doubling or recursive doubling keep every port busy from the first message
/// to the last, where no part of α is the wire's: having them in flight together can hide additions, and nothing else.
/// So they cost at most their sum, and exactly that where γ = 0.
namespace lockstep::collectives {

/// What exchanges cost by their distance, which is the difference of the partners' numbers: less than `near_ranks`
/// over `near`, else over `far`, where up to `sharing` ranks of a node send at once and get an equal part of its link
/// each. As many as half of those that exchange with each other have others of them beyond their node's end.
struct Links {
  Rates near;
  Rates far;
  Rates folding;       ///< between ranks 2i and 2i + 1
  int near_ranks = 1;  ///< a power of two
  int sharing = 1;
};

/// All links alike.
inline Links alike(const Rates& rates) { return {.near = rates, .far = rates, .folding = rates}; }

/// 2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ. Exact where p divides the elements; else that of n rounded up to such a number
/// is an upper bound.
double ring_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// 4h(α + nβ/2) + h·nγ with h = ⌈log₂p⌉: an upper bound, as ports idle where only one child sends. For two ranks it is
/// twice the exact price.
double double_tree_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// 2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ with q the largest power of two ≤ p, and 2α + 2nβ + nγ more where q < p; α and
/// β are of the link at each round's distance. Between links that are all alike it is exact where q divides the
/// elements; else that of n rounded up to such a number is an upper bound. With a radix above 2 a round of g ranks has
/// g − 1 messages in place of log₂g rounds, and costs (g − 1)·α less what they spend on the wire at the same time,
/// which is all but one of their wire_seconds: exact where adding is free and p is a power of two; for other p up to 64
/// it is at most a quarter too little and a twentieth too much.
double halving_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix = 2);

/// log₂q·(α + nβ + nγ) with q the largest power of two ≤ p, and 2α + 2nβ + nγ more where q < p; links as in
/// halving_doubling_all_reduce_seconds. Exact between links that are all alike. With a radix above 2 a round of g ranks
/// costs (g − 1)·(α + nβ + nγ) − (g − 2)·wire_seconds: exact where adding is free and p is a power of two. Adding may
/// take less, as the first to come can be added while others are on the wire.
double recursive_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix = 2);

/// Halving-doubling's where the largest of the binary blocks has 2^a ranks, and 2·2^(a−b)α + 2·2⁻ᵇnβ + 2⁻ᵃnγ more, over
/// far links, for each pair of neighboring blocks of 2^a > 2^b ranks. Exact for powers of two that divide the
/// elements; else an estimate: as blocks work side by side, the price is between half of it and a tenth more.
double tree_order_all_reduce_seconds(int ranks, Bytes buffer, const Links& links);

/// 2α + 2(p−1)/p·nβ + (p−1)/p·nγ for p > 1 ranks of one node whose buffers all see; β is of reading and writing another
/// rank's memory. Exact where p divides the elements.
double shared_memory_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// α + (p−1)(nβ + nγ) for p > 1 ranks of one node. Exact.
double pull_all_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// The formula of an algorithm, on one node for those that share memory. Rings and trees pass the buffer on from rank
/// to rank and are priced as if all links were far ones.
double all_reduce_seconds(Algorithm algorithm, int ranks, Bytes buffer, const Links& links, int radix = 2);

/// ⌈log₂p⌉(α + nβ). Exact.
double binomial_broadcast_seconds(int ranks, Bytes buffer, const Rates& rates);

/// (p−1)(α + nβ), n the bytes of one rank's part. Exact.
double ring_all_gather_seconds(int ranks, Bytes part, const Rates& rates);

/// (p−1)(α + nβ + nγ), n the bytes of one rank's part. Exact where each rank brings one leaf.
double ring_reduce_scatter_seconds(int ranks, Bytes part, const Rates& rates);

/// ⌈log₂p⌉(α + nβ + nγ). Exact where each rank brings one leaf.
double binomial_reduce_seconds(int ranks, Bytes buffer, const Rates& rates);

/// ⌈log₂p⌉α + (p−1)nβ, n the bytes of one part. Exact, of a scatter too.
double binomial_gather_seconds(int ranks, Bytes part, const Rates& rates);

/// (p−1)(α + nβ) less all but one of the messages' wire_seconds, n the bytes of one part. Exact.
double pairwise_all_to_all_seconds(int ranks, Bytes part, const Rates& rates);

/// ⌈log₂p⌉·α. Exact.
double dissemination_barrier_seconds(int ranks, const Rates& rates);

}  // namespace lockstep::collectives
