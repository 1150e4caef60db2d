// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::cli {

/// Returns the program's name for its messages: the last part of argv[0], or "lockstep" without one. It lives as long
/// as argv.
std::string_view program_name(int argc, const char* const* argv);

/// Runs an app's body with `lockstep::run`, with the app's name in its messages.
/// @return the ExitCode that main() returns
int run_app(std::string_view app, const WorldOptions& options, const std::function<int(World&)>& body);

/// Prints `text` on standard output, from the first process of the job only. It serves --help and --version, before
/// there is a World.
/// @return the exit code for main(): an error, which is reported, if standard output cannot be written
int print_once(std::string_view app, const std::string& text);

}  // namespace lockstep::cli
