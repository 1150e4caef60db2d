// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/node_memory/control_channel.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep {

/// Makes node memory for the ranks of a set, processes or threads. Collective over `node`, whose ranks are on one node.
/// Groups that were made from one World, or from one set of ranks, share the node's memory: if all ranks of `node` hold
/// the same memory already, it is used; otherwise they make new memory.
/// @param why_not  set to the reason if null is returned; it names the rank and its host
/// @return null on every rank if any of them cannot take part
/// @throws Error{transport} from MPI
std::shared_ptr<NodeMemory> make_node_memory(const RankSet& node, const NodeMemoryOptions& options,
                                             std::string& why_not);

/// Returns the group of the ranks of this rank's node. Collective. @param shape  the shape of the group
/// @throws Error{timeout}, Error{transport}
RankSet split_by_node(const RankSet& group, const ClusterShape& shape);

/// Makes a ControlChannel. Collective over `group`, which may be closed afterwards, as may `node`. If ranks of
/// a node cannot share memory, they send messages.
/// @param shape  the shape of the group
/// @param node   from `split_by_node`
/// @throws Error{transport}
std::shared_ptr<ControlChannel> make_control_channel(const RankSet& group, const ClusterShape& shape,
                                                     const RankSet& node);
/// Makes the group of the node for itself.
std::shared_ptr<ControlChannel> make_control_channel(const RankSet& group, const ClusterShape& shape);

}  // namespace lockstep
