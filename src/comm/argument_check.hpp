// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/comm/collective.hpp"

namespace lockstep {

/// Why a request can never work, or an empty text.
std::string complaint(const Collective& collective, Rank rank, int size);

}  // namespace lockstep
