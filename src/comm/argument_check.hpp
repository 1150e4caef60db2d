// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// Returns why a request can never work, or an empty string if it is valid.
std::string complaint(const Collective& collective, Rank rank, int size);

}  // namespace lockstep
