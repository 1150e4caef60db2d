// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>

#include "lockstep/platform/mpi/world.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {

/// Returns the same ranks as if each node had `ranks_per_node` of them.
inline MpiGroup on_nodes(const World& world, int ranks_per_node) {
  auto handle = std::make_unique<MpiGroup::Handle>(MpiGroup::Handle{.node_files = world.group().handle().node_files});
  MPI_Comm_dup(communicator(world.group()), &handle->communicator);
  auto members = std::make_shared<MpiGroup::Members>();
  members->hosts = world.hosts();
  for (int rank = 0; rank < world.size(); ++rank) members->shape.node_of_rank.push_back(rank / ranks_per_node);
  return {std::move(handle), members};
}

}  // namespace lockstep::backends
