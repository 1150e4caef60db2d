// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <string>

#include "lockstep/mpi/from_mpi.hpp"
#include "mpi/mpi_messages.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& why) {
  throw Error(code, "cannot use the program's communicator: " + why, {.operation = "from_mpi"});
}

void check_running() {
  int initialized = 0;
  int finalized = 0;
  LOCKSTEP_MPI(MPI_Initialized(&initialized));
  LOCKSTEP_MPI(MPI_Finalized(&finalized));
  if (initialized == 0) refuse(ErrorCode::invalid_argument, "MPI is not initialized yet; call MPI_Init first");
  if (finalized != 0) refuse(ErrorCode::invalid_argument, "MPI is finalized already");
}

}  // namespace

RankSet from_mpi_handle(std::int64_t fortran_handle, std::string_view family, std::chrono::duration<double> deadline) {
  if (family != LOCKSTEP_MPI_FAMILY) {
    refuse(ErrorCode::unsupported, "the program was compiled with the headers of " + std::string(family) +
                                       ", lockstep with those of " LOCKSTEP_MPI_FAMILY
                                       ": build both with the same MPI library");
  }
  check_running();
  MPI_Comm theirs = MPI_Comm_f2c(static_cast<MPI_Fint>(fortran_handle));
  if (theirs == MPI_COMM_NULL) refuse(ErrorCode::invalid_argument, "it is MPI_COMM_NULL on this rank");
  int between_groups = 0;
  LOCKSTEP_MPI(MPI_Comm_test_inter(theirs, &between_groups));
  if (between_groups != 0) {
    refuse(ErrorCode::invalid_argument, "it is an intercommunicator; pass one of a single group of ranks");
  }
  return group_beside(theirs, deadline, mpi_messages());
}

}  // namespace lockstep
