// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace emulated_gpu {

/// Sets what cudaGetLastError of this thread returns next.
void set_last_error(cudaError_t error);
/// Returns the error of this name; cudaErrorUnknown if there is none.
cudaError_t error_named(const std::string& name);
/// Returns whether the error "leaves the process in an inconsistent state and any further CUDA work will return the
/// same error".
/// @source CUDA Runtime API 13.0, data types, cudaError
bool is_sticky(cudaError_t error);

}  // namespace emulated_gpu
