// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// Makes a control channel's way to other ranks: each text has a TCP connection of its own, which is closed behind it.
/// So a rank has no connections while nothing is said, and never more than 32 of its own, whatever the number of ranks.
/// Collective.
/// @throws Error{transport}, on every rank, if the hosts do not reach each other; Error{timeout}
std::unique_ptr<ControlLink> make_tcp_control_link(const RankSet& set);

/// The ranks of other nodes with which a rank tries out by which addresses their hosts are reached: those with the same
/// number on their node, counted modulo the number of ranks of the smaller node. It is a partner of each of its
/// partners, and has a partner on each node; one, where nodes have equally many ranks.
std::vector<int> partners_on_nodes(const ClusterShape& shape, Rank me);

}  // namespace lockstep
