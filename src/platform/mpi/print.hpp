// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Writes "program: what" on standard error, in one line and one write, so that lines of several ranks do not mix. Only
/// what stands for a program's main prints: `run`, and the destructor of a World that cannot tell anybody else.
void print_error(std::string_view program, std::string_view what);

/// Flushes standard output. @return why some of it could not be written; nothing where all is written
std::optional<std::string> flush_output();

}  // namespace lockstep
