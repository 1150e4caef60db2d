// SPDX-License-Identifier: Apache-2.0
// A library that says it is the NCCL of the version that FAKE_NCCL_VERSION has, as ncclGetVersion writes it. With
// FAKE_NCCL_COMPLETE it has all the functions that lockstep calls, and each returns ncclInternalError.
#include <cstdlib>

#include "backends/nccl/nccl_library.hpp"

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const char* code = std::getenv("FAKE_NCCL_VERSION");
  *version = code != nullptr ? std::atoi(code) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

#ifdef FAKE_NCCL_COMPLETE
// Under the names of NCCL for the linker, since the header has declared these for the compiler with other types.
#define FAKE_NCCL_FUNCTION(name)                \
  ncclResult_t fake_##name() asm("nccl" #name); \
  ncclResult_t fake_##name() { return ncclInternalError; }
LOCKSTEP_NCCL_FUNCTIONS(FAKE_NCCL_FUNCTION)
#endif

}  // extern "C"
