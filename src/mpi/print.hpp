// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Writes "program: what" to standard error as one line in one write, so that lines of several ranks do not mix. Only
/// code in the place of a program's main calls it: `run`, and the destructor of a World without another way to report.
void print_error(std::string_view program, std::string_view what);

/// Does the same without waiting for standard output, to which earlier text goes: it may be what hangs.
void print_line(std::string_view program, std::string_view what);

/// Writes what explains an error below its line, in one write. @param prefix  begins each line
void print_details(std::string_view text, std::string_view prefix = "  | ");

/// Opens those of the descriptors 0 to 2 that are closed on /dev/null: the next file or connection would get their
/// numbers, and input and output that are meant for standard streams would go there.
void open_standard_streams();

/// Flushes standard output. @return why some of it could not be written; nothing if all is written
std::optional<std::string> flush_output();

}  // namespace lockstep
