// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/versions.hpp"

#include <array>
#include <string_view>

#include "platform/mpi/mpi.hpp"

namespace lockstep {

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_library_version(text.data(), &length));
  // Libraries append their build and its configuration, after a comma or on further lines.
  const std::string_view all = text.data();
  return std::string(all.substr(0, all.find_first_of(",\n")));
}

}  // namespace lockstep
