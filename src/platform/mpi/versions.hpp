// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// The MPI library this process runs with, in its own words, e.g. "Open MPI v4.1.4". May be called before `World`.
std::string mpi_library_version();

}  // namespace lockstep
