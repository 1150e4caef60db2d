// SPDX-License-Identifier: Apache-2.0
#pragma once

// For programs that are MPI programs already. It is the only public header that includes mpi.h; so
// lockstep/lockstep.hpp does not include it. Programs that do link the target lockstep::mpi.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/mpi/mpi_family.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// Makes a group of the ranks of `communicator`, which stays the program's: its messages, attributes and error handler
/// are not touched, and it may be freed while the group lives. MPI may have been initialized at any thread level.
/// Collective over `communicator`. The group is closed before MPI_Finalize.
/// @param deadline  how long to wait for all ranks to call this
/// @throws as MpiGroup::adopt
inline MpiGroup adopt_group(MPI_Comm communicator, std::chrono::duration<double> deadline = usual_deadline) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  // Before MPI_Init and after MPI_Finalize, MPI_Comm_c2f would end the job. MpiGroup::adopt throws an error instead.
  const bool is_running = initialized != 0 && finalized == 0;
  const std::int64_t handle = is_running ? static_cast<std::int64_t>(MPI_Comm_c2f(communicator)) : 0;
  return MpiGroup::adopt(handle, LOCKSTEP_MPI_FAMILY, deadline);
}

/// Makes a ProcessGroup of the ranks of `communicator`, on the terms of `adopt_group`: what lockstep sends meets none
/// of the program's messages. Collective over `communicator`, within the deadline of the options. The group is closed,
/// or destroyed, before MPI_Finalize.
/// @throws as MpiGroup::adopt and ProcessGroup
inline ProcessGroup adopt(MPI_Comm communicator, GroupOptions options = {}) {
  MpiGroup group = adopt_group(communicator, options.deadline);
  return ProcessGroup(std::move(group), std::move(options));
}

}  // namespace lockstep
