// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "emulated_gpu/kernel/grid.hpp"

namespace emulated_gpu {

/// The values between <<< and >>>.
struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
inline Configuration configuration(dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

/// Puts the kernel on its stream. An error of the launch becomes the runtime's last error.
void launch_kernel(KernelCall call, cudaStream_t stream);

/// Registers the __device__ variables, whose address only the linker of a program knows; see device.hpp.
bool add_variables_of_gpu(const char* begin, const char* end);

/// Begins the checks of each access of the thread, until it ends.
void begin_kernel();

/// @param kernel  called with the arguments as they are now; each thread gets copies
template <typename Kernel, typename... Arguments>
void launch(const char* name, Kernel kernel, const Configuration& how, Arguments... arguments) {
  static_assert((std::is_trivially_copyable_v<Arguments> && ...), "CUDA copies a kernel's arguments byte by byte");
  // The lambda is not instrumented, because the arguments are in host memory.
  const auto thread = [=]() __attribute__((no_sanitize("thread"))) {
    begin_kernel();
    kernel(arguments...);
  };
  launch_kernel({name, how.grid, how.block, how.shared_bytes, thread}, how.stream);
}

}  // namespace emulated_gpu
