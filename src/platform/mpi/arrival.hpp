// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>

namespace lockstep {

/// A barrier of all ranks of `communicator` with a deadline. As long as it is kept, no message is sent that could meet
/// another one of the communicator's; afterwards ranks tell each other who has come, by messages of tag 32767.
/// @throws Error{timeout}, on every rank that has come or comes later, which names the ranks that had not come;
///         Error{transport}
void await_arrival(MPI_Comm communicator, std::chrono::duration<double> deadline);

}  // namespace lockstep
