// SPDX-License-Identifier: Apache-2.0
#pragma once

// For programs that are MPI programs already. The only public header that includes mpi.h, and so not one of those that
// lockstep's umbrella header includes; its target is lockstep::mpi.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/mpi/mpi_family.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// A group of the ranks of `communicator`, which stays the program's: its messages, attributes and error handler are
/// not touched, and it may be freed while the group lives. MPI may have been initialized at any thread level.
/// Collective over `communicator`. The group is closed before MPI_Finalize.
/// @param deadline  for all ranks to call this
/// @throws as MpiGroup::adopt
inline MpiGroup adopt_group(MPI_Comm communicator, std::chrono::duration<double> deadline = std::chrono::seconds(300)) {
  return MpiGroup::adopt(static_cast<std::int64_t>(MPI_Comm_c2f(communicator)), LOCKSTEP_MPI_FAMILY, deadline);
}

/// The ranks of `communicator`, as `adopt_group`, ready to communicate: what lockstep sends meets none of the program's
/// messages. Collective over `communicator`; the deadline for all ranks to call this is that of the options.
/// @throws as MpiGroup::adopt and ProcessGroup
inline ProcessGroup adopt(MPI_Comm communicator, GroupOptions options = {}) {
  MpiGroup group = adopt_group(communicator, options.deadline);
  return ProcessGroup(std::move(group), std::move(options));
}

}  // namespace lockstep
