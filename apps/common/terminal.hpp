// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Whether what this process prints on standard output appears on a terminal, so that lines may be rewritten in place.
///
/// Open MPI gives each process a terminal of mpirun's own making, wherever mpirun's own output goes. So under a
/// launcher the parent process must write to a terminal too, and to another one: it is the launcher then, not a shell
/// between launcher and program. Where that cannot be told, the answer is no.
bool shows_on_terminal();

}  // namespace lockstep
