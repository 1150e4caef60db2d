// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace emulated_gpu {

/// Counts this call of `call`, and returns the name of the error that EMULATED_GPU_FAULTS wants it to return. The
/// variable is a list such as "cudaEventRecord:3:cudaErrorUnknown,ncclSend:1:ncclSystemError"; "async" stands for the
/// result of ncclCommGetAsyncError. "…:3+:…" is the third call and all later ones. Thread-safe.
std::optional<std::string> injected_fault(const std::string& call);

/// Replaces the variable's list and resets the counts.
void set_faults(const std::string& list);

}  // namespace emulated_gpu
