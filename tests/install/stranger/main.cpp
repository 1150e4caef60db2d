// SPDX-License-Identifier: Apache-2.0
// Prints what a program sees of the lockstep that it is linked with. It names functions that call CUDA and NCCL, so
// that these are linked, too.
#include <cstdio>
#include <exception>
#include <string>

#include "lockstep/base/version.hpp"

// The headers of these functions are not installed. A program would reach them through ProcessGroup, which needs MPI.
namespace lockstep {
std::string why_no_gpu();
namespace backends {
std::string nccl_version();
}
}  // namespace lockstep

static_assert(LOCKSTEP_VERSION >= LOCKSTEP_MAKE_VERSION(0, 1, 0));

std::string nccl() {
  try {
    return lockstep::backends::nccl_version();
  } catch (const std::exception& error) {
    return error.what();
  }
}

int main() {
  std::printf("lockstep %s, NCCL '%s': %s\n", std::string(lockstep::version()).c_str(), nccl().c_str(),
              lockstep::why_no_gpu().c_str());
}
