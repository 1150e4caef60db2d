// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/plan/options.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/mpi/connector.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep::backends {

/// Makes a communicator that runs lockstep's own algorithms over MPI messages: after this call it uses no MPI
/// collective. Collective over `group`, which may be closed afterwards. If the ranks of a node cannot share memory, a
/// selection that forces nothing uses messages only, and one that forces an algorithm in shared memory fails.
/// @throws Error{unsupported}, on every rank, if shared memory is demanded and not available; Error{transport};
///         Error{invalid_argument} if an option is out of range
std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options = {});

/// Creates memory that this rank's node shares. Collective over the group.
/// @param notice   called with notices by one rank of a node; may be empty
/// @param why_not  the reason, on every rank, if nothing is returned
/// @return nothing, on every rank, if any node cannot share memory
std::shared_ptr<NodeMemory> share_memory(const MpiGroup& group, Bytes control_bytes,
                                         const std::function<void(std::string_view)>& notice, std::string& why_not);

/// Returns whether shared memory is mandatory, because an algorithm that needs it is forced.
bool is_shared_memory_demanded(const collectives::Selection& selection);

/// Removes shared memory from the selection; rank 0 calls `notice`.
void go_by_messages(const MpiGroup& group, collectives::Selection& selection, const std::string& why,
                    const std::function<void(std::string_view)>& notice);

/// Connects this rank to its `socket_partners` unless the options, one host, or RDMA speak against it. Collective.
/// @param notice  called by rank 0 if connections that would help cannot be made; may be empty
/// @return nothing, on every rank, if small messages go by MPI
/// @throws Error{unsupported}, on every rank, if connections are demanded and cannot be made; Error{transport}
std::optional<std::vector<Connection>> connect_hosts(const MpiGroup& group, Sockets sockets,
                                                     const std::function<void(std::string_view)>& notice);

/// Returns `no` instead of `automatic` where small messages go by MPI, so that it is found out and noticed once for all
/// communicators of a group. Collective. @throws Error{transport}
Sockets settle_sockets(const MpiGroup& group, Sockets sockets, const std::function<void(std::string_view)>& notice);

/// Checks whether the nodes' ranks can share memory, if the selection would use it but does not require it. Falls back
/// to messages if they cannot. Collective.
void settle_shared_memory(const MpiGroup& group, collectives::Selection& selection,
                          const std::function<void(std::string_view)>& notice);

}  // namespace lockstep::backends
