// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

namespace emulated_gpu {

/// Returns the error with which an entry point must fail because the test injects it; ncclSuccess otherwise.
ncclResult_t injected_nccl_error(const char* call);
/// Records an error message of this thread, without a communicator. @return code
ncclResult_t refuse(ncclResult_t code, const std::string& why);
const std::string& last_refusal();
/// Checks that the communicator accepts a call now: it is neither busy nor failed. A violation if it is gone.
ncclResult_t check_ready(ncclComm_t handle);
/// Does the same for an operation, which is also refused after the communicator was finalized or revoked.
ncclResult_t check_usable(ncclComm_t handle);

#define EMULATED_NCCL_CALL(name) \
  if (const ncclResult_t injected = ::emulated_gpu::injected_nccl_error(name); injected != ncclSuccess) return injected

}  // namespace emulated_gpu
