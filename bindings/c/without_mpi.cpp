// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/ranks.hpp"

namespace lockstep::bindings {

std::shared_ptr<Environment> environment_of_mpi(const GroupOptions& /*options*/) { return nullptr; }

RankSet ranks_of_communicator(std::int64_t /*communicator*/, std::chrono::duration<double> /*deadline*/) {
  throw Error(
      ErrorCode::unsupported,
      "lockstep was built without MPI (LOCKSTEP_MPI=OFF): build it with MPI, or make groups from the environment");
}

}  // namespace lockstep::bindings
