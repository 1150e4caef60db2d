// SPDX-License-Identifier: Apache-2.0
// Prints what a program sees of the lockstep that it is linked with. It names what CUDA is needed for, so that this is
// linked too, and is not there in a package that was built with CUDA and is used without.
#include <cstdio>
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

int main() {
  std::printf("lockstep %s, NCCL '%s': %s\n", std::string(lockstep::version()).c_str(),
              lockstep::backends::nccl_version().c_str(), lockstep::why_no_gpu().c_str());
}
