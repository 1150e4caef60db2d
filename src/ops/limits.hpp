// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// Calls its argument, with member and members, on each thread of a team.
using OnTeam = std::function<void(const std::function<void(int member, int members)>&)>;

/// Measures the peak rates of the team. @throws Error{unsupported} unless the dtype is float32 or float64
MachineLimits measure_limits(DType dtype, const OnTeam& on_team);

}  // namespace lockstep::ops
