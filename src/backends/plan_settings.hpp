// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/plan/options.hpp"
#include "lockstep/base/types.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::backends {

/// Returns the settings that determine messages, their peers and their memory. If one rank had different settings, it
/// would send messages that no rank awaits, or write memory that another rank reads.
std::vector<Setting> settings_of(std::string_view back_end, const PlanOptions& options);

/// Returns text such as "rank 2 has pull limit (bytes) 64, rank 0 has 4096"; empty if there are no differences.
std::string differences(const std::vector<Setting>& mine, const std::vector<Setting>& theirs, Rank me, Rank other);

}  // namespace lockstep::backends
