// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::collectives {

/// Seconds that the operation should take on the selection's cluster, at its prices: what `choose` goes by and what is
/// shown of it. The closed formula of one block (cost.hpp), and from the second block on the time by which each block
/// in flight follows the one before it, which is no shorter than the busiest port needs.
/// - Exchanges at distances below the ranks of a node are local where ranks and ranks per node are powers of two and
///   ranks are numbered node by node; else each round is as slow as a message between nodes.
/// - In exchanges as many ranks of a node send over its link at once as reach beyond it, and each gets an equal part.
///   Rings and trees, which pass on from rank to rank, have it to themselves where ranks are numbered node by node;
///   every link is priced as one between nodes.
/// - A hierarchical all-reduce is one of shared memory in the fullest node, and one of messages between nodes, in lanes
///   that share the link, as many as the emptiest node has ranks.
/// @param bytes  of the buffer; of one part where there is one for each rank, of a mean part where they differ; of no
///               meaning to a barrier
double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const Selection& on);

}  // namespace lockstep::collectives
