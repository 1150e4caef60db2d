// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep {

/// Ranks that are processes. Collective over `node`, which has ranks of one node only. Groups that were made from one
/// World, or from one adopted communicator, share the node's memory: where all ranks of `node` hold some already, it is
/// used; else they make some of their own.
/// @param why_not  the reason where nothing is returned; names the rank and its host
/// @return nothing on every rank if any of them cannot take part
/// @throws Error{transport} from MPI
std::shared_ptr<NodeMemory> make_node_memory(const MpiGroup& node, const NodeMemoryOptions& options,
                                             std::string& why_not);

}  // namespace lockstep
