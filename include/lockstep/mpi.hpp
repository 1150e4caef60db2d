// SPDX-License-Identifier: Apache-2.0
#pragma once

// For programs that are MPI programs already. It is the only public header that includes mpi.h; so
// lockstep/lockstep.hpp does not include it. Programs that do link the target lockstep::mpi.

#include <mpi.h>

#include <chrono>
#include <cstdint>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/from_mpi.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// Makes a set of the ranks of `communicator`, which stays the program's: what lockstep sends meets none of its
/// messages, its attributes and error handler are not touched, and it may be freed while the set lives. MPI may have
/// been initialized at any thread level. Collective over `communicator`. Sets and groups are closed, or destroyed,
/// before MPI_Finalize:
///
///     lockstep::ProcessGroup group(lockstep::from_mpi(MPI_COMM_WORLD));
///
/// @param deadline  how long to wait for all ranks to call this
/// @throws as from_mpi_handle
inline RankSet from_mpi(MPI_Comm communicator, std::chrono::duration<double> deadline = usual_deadline) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  // Before MPI_Init and after MPI_Finalize, MPI_Comm_c2f would end the job. from_mpi_handle throws an error instead.
  const bool is_running = initialized != 0 && finalized == 0;
  const std::int64_t handle = is_running ? static_cast<std::int64_t>(MPI_Comm_c2f(communicator)) : 0;
  return from_mpi_handle(handle, LOCKSTEP_MPI_FAMILY, deadline);
}

}  // namespace lockstep
