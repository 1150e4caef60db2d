// SPDX-License-Identifier: Apache-2.0
// Prints what a program sees of the lockstep that it is linked with. It names what calls CUDA and NCCL, so that this is
// linked too.
#include <cstdio>
#include <exception>
#include <string>

#include "lockstep/base/version.hpp"

// No header of these is installed: a program gets there through ProcessGroup, which would need MPI to have begun.
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
