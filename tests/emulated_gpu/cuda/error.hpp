// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace emulated_gpu {

/// What cudaGetLastError of this thread returns next.
void set_last_error(cudaError_t error);
/// cudaErrorUnknown where there is none of that name.
cudaError_t error_named(const std::string& name);
/// Whether it "leaves the process in an inconsistent state and any further CUDA work will return the same error".
/// @source CUDA Runtime API 13.0, data types, cudaError
bool is_sticky(cudaError_t error);

}  // namespace emulated_gpu
