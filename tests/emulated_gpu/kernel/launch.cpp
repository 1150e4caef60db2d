// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/launch.hpp"

#include <utility>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/kernel/shared_memory.hpp"

namespace emulated_gpu {
namespace {

bool is_within(const dim3& extent, unsigned x, unsigned y, unsigned z) {
  return extent.x > 0 && extent.y > 0 && extent.z > 0 && extent.x <= x && extent.y <= y && extent.z <= z;
}

/// @source CUDA C++ Programming Guide 13.0, technical specifications per compute capability
bool fits_the_device(const KernelCall& kernel) {
  return is_within(kernel.grid, 2147483647, 65535, 65535) && is_within(kernel.block, 1024, 1024, 64) &&
         kernel.block.x * kernel.block.y * kernel.block.z <= 1024;
}

cudaError_t try_launch(KernelCall kernel, cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaLaunchKernel");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || stream->gpu != current_gpu()) return cudaErrorInvalidResourceHandle;
  if (!fits_the_device(kernel)) return cudaErrorInvalidConfiguration;
  if (kernel.shared_bytes > SharedMemory::most_bytes) return cudaErrorInvalidValue;
  kernel.gpu = stream->gpu;
  return put(*stream, cudaGraphNodeTypeKernel, [kernel = std::move(kernel)] { return run_grid(kernel); });
}

}  // namespace

void launch_kernel(KernelCall call, cudaStream_t stream) { Call::result(try_launch(std::move(call), stream)); }

}  // namespace emulated_gpu
