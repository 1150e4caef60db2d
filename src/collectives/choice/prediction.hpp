// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/choice/selection.hpp"

namespace lockstep::collectives {

/// Predicts the seconds of an operation on the selection's cluster with its costs; `choose` minimizes it. The
/// prediction is the closed formula of one block (cost.hpp), plus for each further block the time by which it follows
/// the previous one, which is at least the time of the busiest port.
/// - Exchanges at distances below the ranks of a node are local if ranks and ranks per node are powers of two and ranks
///   are numbered node by node; otherwise each round is as slow as a message between nodes.
/// - In exchanges, all ranks of a node with partners on other nodes share its link equally. Rings and trees pass the
///   buffer from rank to rank and use the link alone if ranks are numbered node by node; each of their links has the
///   cost of one between nodes.
/// - A hierarchical all-reduce consists of one in shared memory on the fullest node and one with messages between
///   nodes, in lanes that share the link; the number of lanes is the number of ranks of the smallest node.
/// @param bytes  bytes of the buffer, of one part if each rank has one, or of an average part if they differ; unused by
///               a barrier
double predicted_seconds(const Choice& choice, CollectiveKind kind, Bytes bytes, const Selection& on);

}  // namespace lockstep::collectives
