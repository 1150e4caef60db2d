// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/program_options.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/platform/mpi/world.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep {

/// The options of a command line with their values, defaults among them, for ranks to compare. Real numbers are exact.
/// @param may_differ  names of those that each rank may have for itself
std::vector<Setting> settings_to_compare(const boost::program_options::variables_map& values,
                                         std::span<const std::string_view> may_differ = {});

/// Compares what the command lines of all ranks ask for. To be called first of all, also where this rank's is wrong,
/// since the others would wait for a rank that does not go on. Collective.
/// @param mistake   what is wrong with this rank's; empty if nothing is
/// @param settings  what must be alike, unless it is wrong
/// @throws UsageError where all have the same mistake; else as require_equal
void require_same_command_line(const World& world, const std::string& mistake, const std::vector<Setting>& settings);

}  // namespace lockstep
