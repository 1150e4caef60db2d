// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace emulated_gpu {

/// What EMULATED_GPU_FAULTS says of this call of `call`, which counts as one of them: the name of the error that it is
/// to return. The variable is a list as "cudaEventRecord:3:cudaErrorUnknown,ncclSend:1:ncclSystemError"; a call may be
/// "async" (ncclCommGetAsyncError's news). "…:3+:…" is the third call and all after it. Thread-safe.
std::optional<std::string> injected_fault(const std::string& call);

/// As if the variable's list had been this one from the start; counts begin anew.
void set_faults(const std::string& list);

}  // namespace emulated_gpu
