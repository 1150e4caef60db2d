// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/contract/values.hpp"

namespace lockstep::contract {

/// What every communicator must do, whatever stands behind it; the test of each back end calls this. Closes it.
void check_all(Communicator& c, const Memory& memory = host_memory());

}  // namespace lockstep::contract
