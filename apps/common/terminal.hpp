// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

namespace lockstep {

/// Whether what this process prints on standard output appears on a terminal, so that lines may be rewritten in place.
///
/// Open MPI gives each process a terminal of mpirun's own making, wherever mpirun's own output goes. So under a
/// launcher the parent process must write to a terminal too, and to another one: it is the launcher then, not a shell
/// between launcher and program. Where that cannot be told, the answer is no.
bool shows_on_terminal();

/// The columns of the terminal that standard output appears on; nothing where there is none, or it does not tell. The
/// variable COLUMNS goes before what the terminal says.
std::optional<std::size_t> terminal_columns();

/// How wide tables may be: 100 columns, and 80 on a terminal that has fewer than 100.
std::size_t table_columns();

}  // namespace lockstep
