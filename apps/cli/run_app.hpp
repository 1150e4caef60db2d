// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/command_line.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/agreement.hpp"

namespace lockstep::cli {

/// Returns the program's name for its messages: the last part of argv[0], or "lockstep" without one. It lives as long
/// as argv.
std::string_view program_name(int argc, const char* const* argv);

/// Prints `text` on standard output, from the first process of the job only. It serves --help and --version, before
/// there is a World.
/// @return the exit code for main(): an error, which is reported, if standard output cannot be written
int print_once(std::string_view app, const std::string& text);

/// @param all  what is wrong with the input of each rank, by rank; empty where it is valid
/// @throws UsageError if a rank has a mistake. It names the ranks, unless all have the same mistake
void refuse_mistakes(const World& world, const std::vector<std::string>& all);

/// Compares the command lines of all ranks, and what else they have to agree on, in one exchange. Each rank calls it
/// first of all, even if its own command line is invalid, because the others would wait for it. Rank 0 prints harmless
/// differences as one warning. Collective.
/// @param app       the program's name, for the warning
/// @param mistake   what is wrong with this rank's command line; empty if it is valid
/// @param settings  what to compare: options, unless the command line is invalid, and `facts_of_process`
/// @param more      what else is exchanged
/// @return the agreement, with the facts of all ranks
/// @throws on every rank as refuse_mistakes and require_equal
Agreement require_same_start(const World& world, std::string_view app, const std::string& mistake,
                             const std::vector<Term>& settings, Agreement more = {});

/// Runs an app whose ranks are all started with the same options: reads and stores the command line, prints what --help
/// or --version ask for, compares the options and the processes of all ranks, and runs the body.
/// @return the ExitCode that main() returns
int run_app(const Program& program, int argc, const char* const* argv, const WorldOptions& options,
            const std::function<int(World&)>& body);

/// Prints harmless differences between ranks as one warning, on rank 0.
/// @param differences  as from require_equal; empty: there are none
void warn_of(const World& world, std::string_view app, const std::string& differences);

}  // namespace lockstep::cli
