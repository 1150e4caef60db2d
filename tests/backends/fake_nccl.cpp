// SPDX-License-Identifier: Apache-2.0
// A library that claims to be NCCL of the version in FAKE_NCCL_VERSION, in the format of ncclGetVersion. With
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
// The functions have NCCL's names for the linker only, because the header declares them with other types.
#define FAKE_NCCL_FUNCTION(name)                \
  ncclResult_t fake_##name() asm("nccl" #name); \
  ncclResult_t fake_##name() { return ncclInternalError; }
LOCKSTEP_NCCL_FUNCTIONS(FAKE_NCCL_FUNCTION)
#endif

}  // extern "C"
