// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace emulated_gpu::wrong {

// Each of these kernels does one thing wrong, in the line with the comment: // wrong: <what>.

/// The kernels that take some memory, by name; each is launched with 64 threads.
struct Kernel {
  const char* what;
  void (*launch)(float* memory, cudaStream_t stream);
};
extern const Kernel kernels[];
extern const int kernels_count;

}  // namespace emulated_gpu::wrong
