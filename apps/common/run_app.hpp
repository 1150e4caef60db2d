// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/platform/mpi/world.hpp"

namespace lockstep {

/// The program's name for its messages: the last part of argv[0], or "lockstep" where there is none. It lives as long
/// as argv.
std::string_view program_name(int argc, const char* const* argv);

/// Runs an app's body by `lockstep::run`, with the app's name in its messages.
/// @return for main() to return; an ExitCode
int run_app(std::string_view app, const WorldOptions& options, const std::function<int(World&)>& body);

/// Prints `text` on standard output, from the first process of the job only. It is for --help and --version, before
/// there is a World.
/// @return for main() to return: an error, which is reported, where standard output cannot be written
int print_once(std::string_view app, const std::string& text);

}  // namespace lockstep
