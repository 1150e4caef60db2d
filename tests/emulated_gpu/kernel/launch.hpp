// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "emulated_gpu/kernel/grid.hpp"

namespace emulated_gpu {

/// What stands between <<< and >>>.
struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
inline Configuration configuration(dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream};
}

/// Puts the kernel on its stream. What is wrong with the launch is the runtime's last error afterwards.
void launch_kernel(KernelCall call, cudaStream_t stream);

/// Tells where __device__ variables are, which only the linker of a program knows; see device.hpp.
bool add_variables_of_gpu(const char* begin, const char* end);

/// From here on until it ends, each access of the thread that runs is checked.
void begin_kernel();

/// @param kernel  takes the arguments as they are here; each thread gets copies
template <typename Kernel, typename... Arguments>
void launch(const char* name, Kernel kernel, const Configuration& how, Arguments... arguments) {
  static_assert((std::is_trivially_copyable_v<Arguments> && ...), "CUDA copies a kernel's arguments byte by byte");
  // Not instrumented: the arguments lie in the host's memory.
  const auto thread = [=]() __attribute__((no_sanitize("thread"))) {
    begin_kernel();
    kernel(arguments...);
  };
  launch_kernel({name, how.grid, how.block, how.shared_bytes, thread}, how.stream);
}

}  // namespace emulated_gpu
