// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/plan/options.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

/// Makes a communicator that runs lockstep's own algorithms over MPI messages: after this call it uses no MPI
/// collective. Collective over `group`, which may be closed afterwards. If the ranks of a node cannot share memory, a
/// selection that forces nothing uses messages only, and one that forces an algorithm in shared memory fails.
/// @throws Error{unsupported}, on every rank, if shared memory is demanded and not available; Error{transport};
///         Error{invalid_argument} if an option is out of range
std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options = {});

}  // namespace lockstep::backends
