// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/cli/command_line.hpp"

/// Texts that are generated from a program's table of options.
namespace lockstep::cli {

/// Returns the options that every program has; the first of them is --help, with its formats.
OptionGroup general_options();

/// Returns the text for --help or --version; empty without these. It is printed before `World` exists.
std::string requested_text(const OptionValues& values, const Program& program);

/// Returns the help as text for people. @param columns  the length that no line exceeds
std::string help_text(const Program& program, int columns);
/// Returns a man page, in roff.
std::string help_man(const Program& program);
/// Returns a page with a table for each group, for docs/.
std::string help_markdown(const Program& program);
/// Returns a script that completes the program's options and their values, for bash and zsh.
std::string help_completion(const Program& program);

}  // namespace lockstep::cli
