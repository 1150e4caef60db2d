// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/contract/values.hpp"

namespace lockstep::contract {

/// Checks what every communicator must do, whatever its back end; the test of each back end calls this. Closes the
/// communicator.
void check_all(Communicator& c, const Memory& memory = host_memory());

}  // namespace lockstep::contract
