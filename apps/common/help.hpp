// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "apps/common/command_line.hpp"

/// What is written from a program's table of options.
namespace lockstep {

/// The options that every program has; the first of them is --help, with its formats.
OptionGroup general_options();

/// What --help or --version asks for; empty where there is neither. To be printed before `World`.
std::string requested_text(const OptionValues& values, const Program& program);

/// The help as text for people. @param columns  no line is longer
std::string help_text(const Program& program, int columns);
/// A man page, in roff.
std::string help_man(const Program& program);
/// A page with a table of each group, for docs/.
std::string help_markdown(const Program& program);
/// A script that completes the program's options and their values, for bash and zsh.
std::string help_completion(const Program& program);

/// The width of the terminal that standard output is, or else what COLUMNS says: at most 100, which is also taken where
/// neither is known, and at least 60.
int output_columns();

}  // namespace lockstep
