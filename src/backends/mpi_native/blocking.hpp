// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/collective.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::backends {

/// Makes one call of the MPI library's blocking collective: a baseline for measurements. It has neither a deadline nor
/// progress of other operations, and validates only what MPI validates. Use a communicator for training.
/// Buffers are as in `Communicator`, except for a reduce_scatter in place, which MPI defines differently (its result
/// overwrites the beginning of the input). MPI has no operators for float16 and bfloat16, so each call creates one.
/// @throws Error{unsupported} for a reduce_scatter in place, or for more elements per rank than an `int` can count;
///         Error{transport}
void mpi_blocking(const MpiGroup& group, const Collective& collective);

}  // namespace lockstep::backends
