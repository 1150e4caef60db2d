// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// Returns the MPI library that this process runs with, e.g. "Open MPI v4.1.4", as the library names itself. It may be
/// called before there is a World.
std::string mpi_library_version();

}  // namespace lockstep
