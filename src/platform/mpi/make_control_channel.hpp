// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// Makes a ControlChannel over MPI. Collective over `group`, which may be closed afterwards. If ranks of a node cannot
/// share memory, they send messages. @param shape  the shape of the group. @throws Error{transport}
std::shared_ptr<ControlChannel> make_control_channel(const MpiGroup& group, const ClusterShape& shape);

}  // namespace lockstep
