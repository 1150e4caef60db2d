// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/plan/options.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

/// lockstep's own algorithms over MPI messages: after this call no MPI collective is used.
/// Collective over `group`, which may be closed afterwards. A selection that forces nothing goes without shared memory
/// where there can be none; whoever asks for it by name gets an error.
/// @throws Error{unsupported}, on every rank, where shared memory is asked for and there is none; Error{transport};
/// Error{invalid_argument} if an option is out of range
std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options = {});

}  // namespace lockstep::backends
