// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

namespace lockstep::cli {

/// Returns whether this process's standard output appears on a terminal, so that lines may be rewritten in place.
///
/// Open MPI gives each process a pseudo-terminal of its own, even if mpirun's output is not a terminal. So under a
/// launcher the parent process must also write to a terminal, and to a different one: then it is the launcher, and no
/// shell in between. If this cannot be determined, the result is false.
bool shows_on_terminal();

/// Returns the columns of the terminal on which standard output appears; nothing if there is none or its size is
/// unknown. The variable COLUMNS overrides the terminal's size.
std::optional<std::size_t> terminal_columns();

/// Returns the width of tables: 100 columns, or 80 on a terminal that has fewer than 100.
std::size_t table_columns();

}  // namespace lockstep::cli
