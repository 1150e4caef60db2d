// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/collective.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

/// One call of the MPI library's blocking collective: a baseline to measure communicators against. It has neither a
/// deadline nor progress of other operations, and validates nothing that MPI does not; train with a communicator.
///
/// Buffers as in `Communicator`, but for a reduce_scatter in place, which MPI defines in another way (its result
/// overwrites the input's beginning). MPI has no operators for float16 and bfloat16: each call makes one.
/// @throws Error{unsupported} for a reduce_scatter in place, or for more elements per rank than an `int` can count;
///         Error{transport}
void mpi_blocking(const MpiGroup& group, const Collective& collective);

}  // namespace lockstep::backends
