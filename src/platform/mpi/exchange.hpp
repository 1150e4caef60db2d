// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/exchange.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep {

/// Makes an Exchange over MPI, on its own communicator. Collective over `group`, which may be closed afterwards.
/// @throws Error{transport}
std::unique_ptr<Exchange> make_exchange(const MpiGroup& group);

}  // namespace lockstep
