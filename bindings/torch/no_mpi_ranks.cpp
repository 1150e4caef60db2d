// SPDX-License-Identifier: Apache-2.0
// Where lockstep was installed without MPI: PyTorch's store connects all ranks.
#include "lockstep/base/error.hpp"
#include "ranks.hpp"

namespace lockstep::bindings {
namespace {

Error no_mpi() {
  return Error(
      ErrorCode::unsupported,
      "lockstep_torch was built over a lockstep without MPI: set LOCKSTEP_TORCH_RANKS=store, or install lockstep "
      "with MPI and build lockstep_torch again");
}

}  // namespace

bool has_mpi() { return false; }

JobRank job_rank() { throw no_mpi(); }

std::string broadcast_text(const std::string&) { throw no_mpi(); }

std::unique_ptr<ProcessGroup> make_group(const std::vector<int>&, int, std::chrono::duration<double>, bool) {
  throw no_mpi();
}

void finalize() {}

}  // namespace lockstep::bindings
