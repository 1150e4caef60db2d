// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace emulated_gpu {

/// Counts this call of `call`, and returns the name of the error that EMULATED_GPU_FAULTS wants it to return. The
/// variable is a list such as "cudaEventRecord:3:cudaErrorUnknown,ncclSend:1:ncclSystemError"; "async" stands for the
/// result of ncclCommGetAsyncError. "…:3+:…" is the third call and all later ones. Thread-safe.
std::optional<std::string> injected_fault(const std::string& call);

/// Replaces the variable's list and resets the counts.
void set_faults(const std::string& list);

/// Writes the call's name to the file that EMULATED_GPU_CALLS names, and to the record of this process if there is one.
void record_call(const std::string& call);
/// Forgets the calls that were recorded, and records from now on. Thread-safe.
void record_calls();
/// Ends the record. @return the names of all calls of the process since record_calls(), in their order
std::vector<std::string> recorded_calls();

}  // namespace emulated_gpu
