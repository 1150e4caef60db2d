// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/plan/options.hpp"
#include "lockstep/base/types.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::backends {

/// What decides who sends what to whom, and where it lies: different on one rank, it would send what nobody awaits, or
/// write where another one reads.
std::vector<Setting> settings_of(std::string_view back_end, const PlanOptions& options);

/// "rank 2 has pull limit (bytes) 64, rank 0 has 4096"; empty where there are none.
std::string differences(const std::vector<Setting>& mine, const std::vector<Setting>& theirs, Rank me, Rank other);

}  // namespace lockstep::backends
