// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

namespace emulated_gpu {

/// The error that an entry point is to fail with because the test wants it; ncclSuccess otherwise.
ncclResult_t injected_nccl_error(const char* call);
/// Last words without a communicator, of this thread. @return code
ncclResult_t refuse(ncclResult_t code, const std::string& why);
const std::string& last_refusal();
/// Whether the communicator takes a call now: not while it is busy, or after an error. A violation if it is gone.
ncclResult_t check_ready(ncclComm_t handle);
/// The same for an operation: nor after the communicator was finalized or revoked.
ncclResult_t check_usable(ncclComm_t handle);

#define EMULATED_NCCL_CALL(name) \
  if (const ncclResult_t injected = ::emulated_gpu::injected_nccl_error(name); injected != ncclSuccess) return injected

}  // namespace emulated_gpu
