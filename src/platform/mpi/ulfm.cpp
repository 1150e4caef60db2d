// SPDX-License-Identifier: Apache-2.0
// The extensions of Open MPI need the header above.
#include "platform/mpi/ulfm.hpp"

#include <mpi-ext.h>

#include "platform/mpi/mpi.hpp"

namespace lockstep {
namespace {

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

}  // namespace

std::string why_no_ulfm() {
  int is_set = 0;
  int* is_on = nullptr;
  LOCKSTEP_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &is_on, &is_set));
  if (is_set != 0 && *is_on != 0) return {};
  return "MPI was started without fault tolerance: start the job by `mpirun --with-ft ulfm`";
}

bool is_revoked(int code) { return class_of(code) == MPIX_ERR_REVOKED; }

bool is_of_death(int code) {
  const int error_class = class_of(code);
  return error_class == MPIX_ERR_PROC_FAILED || error_class == MPIX_ERR_PROC_FAILED_PENDING || is_revoked(code);
}

std::vector<int> dead_ranks(MPI_Comm communicator) {
  MPI_Group dead = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPIX_Comm_get_failed(communicator, &dead));
  return ranks_of_group_in(communicator, dead);
}

void revoke(MPI_Comm communicator) { MPIX_Comm_revoke(communicator); }

LivingVerdict agree_among_living(MPI_Comm communicator, bool mine) {
  int all = mine ? 1 : 0;
  const int code = MPIX_Comm_agree(communicator, &all);
  if (code != MPI_SUCCESS && class_of(code) != MPIX_ERR_PROC_FAILED) throw_mpi_error(code, "MPIX_Comm_agree");
  return {.all = all != 0, .has_anyone_died = code != MPI_SUCCESS};
}

MPI_Comm shrink(MPI_Comm communicator) {
  MPI_Comm left = MPI_COMM_NULL;
  LOCKSTEP_MPI(MPIX_Comm_shrink(communicator, &left));
  return left;
}

}  // namespace lockstep
