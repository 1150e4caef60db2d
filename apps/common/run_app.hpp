// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/platform/mpi/world.hpp"

namespace lockstep {

/// The command line is wrong, in the same way on every rank, since all have the same one.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program's name for its messages: the last part of argv[0], "lockstep" where there is none. Lives as long as
/// argv.
std::string_view program_name(int argc, const char* const* argv);

/// Runs an app's body in a world and turns whatever it throws into one line on standard error, below all that was
/// printed before, and an exit code. mpirun prints its own boxes after it, unless mpi-scripts/launch.py started that.
/// - `UsageError`, or an `Error` that is on every rank: rank 0 reports and all end in good order;
/// - any other exception: this rank reports, "rank 1 on host: …", and aborts the job, since its peers may be waiting.
/// The body closes what it opened; the world is closed here.
/// @return for main() to return; see exit_codes.hpp
int run_app(std::string_view app, const WorldOptions& options, const std::function<int(World&)>& body);

/// Prints `text` on standard output, from the first process of the job only: for --help and --version, before `World`.
void print_once(const std::string& text);

}  // namespace lockstep
