// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>

#include "lockstep/mpi/world.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {

/// Returns the same ranks as if each node had `ranks_per_node` of them.
inline RankSet on_nodes(const World& world, int ranks_per_node) {
  auto members = std::make_shared<RankSet::Members>();
  members->hosts = world.hosts();
  for (int rank = 0; rank < world.size(); ++rank) members->shape.node_of_rank.push_back(rank / ranks_per_node);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(communicator(world.group()), &copy);
  auto link = std::make_unique<MpiLink>(copy, members, nullptr);
  link->messages = world.group().link().messages;
  link->node_files = world.group().link().node_files;
  return RankSet(std::move(link));
}

}  // namespace lockstep::backends
