// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/common/command_line.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep {

/// The options that all ranks must have alike, with their values, defaults among them. Real numbers are exact.
std::vector<Setting> settings_to_compare(const OptionValues& values);

/// Compares what the command lines of all ranks ask for. To be called first of all, also where this rank's is wrong,
/// since the others would wait for a rank that does not go on. Collective.
/// @param mistake   what is wrong with this rank's; empty if nothing is
/// @param settings  what must be alike, unless it is wrong
/// @throws UsageError where all have the same mistake; else as require_equal
void require_same_command_line(const World& world, const std::string& mistake, const std::vector<Setting>& settings);

}  // namespace lockstep
