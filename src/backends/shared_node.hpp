// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/types.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep::backends {

/// Memory that this rank's node shares. Collective over the group.
/// @param notice   told by one rank of a node what there is to say; may be empty
/// @param why_not  the reason, on every rank, where nothing is returned
/// @return nothing, on every rank, where on some node there can be none
std::shared_ptr<NodeMemory> share_memory(const MpiGroup& group, Bytes control_bytes,
                                         const std::function<void(std::string_view)>& notice, std::string& why_not);

/// Whether there is no doing without shared memory, because an algorithm that needs it was asked for by name.
bool is_shared_memory_demanded(const collectives::Selection& selection);

/// Leaves shared memory out of the selection; rank 0 gives notice of it.
void go_by_messages(const MpiGroup& group, collectives::Selection& selection, const std::string& why,
                    const std::function<void(std::string_view)>& notice);

/// Tries whether the nodes' ranks can share memory, where the selection would make use of it and can do without; goes
/// by messages where they cannot. Collective.
void settle_shared_memory(const MpiGroup& group, collectives::Selection& selection,
                          const std::function<void(std::string_view)>& notice);

}  // namespace lockstep::backends
