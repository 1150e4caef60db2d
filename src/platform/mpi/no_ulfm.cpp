// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/ulfm.hpp"

namespace lockstep {

std::string why_no_ulfm() {
  return mpi_library_version() +
         ", which lockstep was built with, has no fault tolerance (ULFM): build with Open MPI 5 (docs/launch.md), and "
         "start the job by "
         "`mpirun --with-ft ulfm`";
}

bool is_revoked(int /*code*/) { return false; }
bool is_of_death(int /*code*/) { return false; }
std::vector<int> dead_ranks(MPI_Comm /*communicator*/) { return {}; }
void revoke(MPI_Comm /*communicator*/) {}
LivingVerdict agree_among_living(MPI_Comm /*communicator*/, bool /*mine*/) {
  throw Error(ErrorCode::unsupported, why_no_ulfm());
}
MPI_Comm shrink(MPI_Comm /*communicator*/) { throw Error(ErrorCode::unsupported, why_no_ulfm()); }

}  // namespace lockstep
