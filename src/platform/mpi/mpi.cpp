// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/mpi.hpp"

#include <array>
#include <string>

#include "platform/mpi/bootstrap.hpp"

namespace lockstep {

bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_processor_name(text.data(), &length));
  return {text.data(), static_cast<std::size_t>(length)};
}

void throw_mpi_error(int code, std::string_view call, ErrorContext context, SourceLocation location) {
  throw Error(ErrorCode::transport, mpi_error_text(code) + " in " + std::string(call), std::move(context), location);
}

}  // namespace lockstep
