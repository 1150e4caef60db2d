// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {
namespace {

/// Allocating and freeing may wait for the GPU; freeing always does.
/// @source CUDA C++ Programming Guide 13.0, implicit synchronization
bool waits_for_the_gpu() { return Engine::instance().random().one_in(2); }

cudaError_t allocate(Call& call, void** address, std::size_t bytes, MemoryType type) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int gpu = current_gpu();
  if (type != MemoryType::managed && waits_for_the_gpu()) {
    if (const cudaError_t error = call.wait_for_device(gpu); error != cudaSuccess) return error;
  }
  DeviceState& device = state_of(gpu);
  if (type == MemoryType::device) {
    const std::size_t all = Runtime::instance().machine.devices[static_cast<std::size_t>(gpu)].memory;
    if (bytes > all - device.allocated) return cudaErrorMemoryAllocation;
    device.allocated += bytes;
  }
  *address = Memory::instance().allocate(type, gpu, bytes).base;
  return cudaSuccess;
}

/// Returns the live allocation that begins at this address, or null.
Block* find_start(const void* address, bool is_pinned) {
  Block* block = Memory::instance().find(address);
  if (block == nullptr || block->base != address || !block->live) return nullptr;
  return (block->type == MemoryType::pinned) == is_pinned ? block : nullptr;
}

void release(Block& block) {
  if (block.graphs > 0)
    violation(describe(block, block.base) + " is freed before a graph for which NCCL has registered it is destroyed");
  if (block.type == MemoryType::device) state_of(block.gpu).allocated -= block.bytes;
  Memory::instance().release(block);
}

cudaError_t free_block(Call& call, void* address, bool is_pinned) {
  if (address == nullptr) return cudaSuccess;
  Block* block = find_start(address, is_pinned);
  if (block == nullptr) return cudaErrorInvalidValue;
  const cudaError_t error = call.wait_for_device(block->gpu);
  if (error == cudaSuccess) release(*block);
  return error;
}

/// Allocates or frees when the stream reaches it.
class PoolTask : public Task {
 public:
  PoolTask(Block& block, bool frees) : block_(&block), frees_(frees) {}
  Step step(Random& /*random*/) override {
    if (!frees_) {
      block_->live = true;
    } else if (!block_->live) {
      violation("cudaFreeAsync of " + describe(*block_, block_->base));
    } else {
      release(*block_);
    }
    return Step::done;
  }
  [[nodiscard]] std::string what() const override { return frees_ ? "cudaFreeAsync" : "cudaMallocAsync"; }

 private:
  Block* block_;
  bool frees_;
};

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  EMULATED_GPU_CALL("cudaMalloc", Call::Capturing::refused);
  return Call::result(allocate(call, address, bytes, MemoryType::device));
}

cudaError_t cudaFree(void* address) {
  EMULATED_GPU_CALL("cudaFree", Call::Capturing::refused);
  return Call::result(free_block(call, address, false));
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  EMULATED_GPU_CALL("cudaMallocHost", Call::Capturing::refused);
  return Call::result(allocate(call, address, bytes, MemoryType::pinned));
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int flags) {
  EMULATED_GPU_CALL("cudaHostAlloc", Call::Capturing::refused);
  constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~known) != 0) return Call::result(cudaErrorInvalidValue);
  return Call::result(allocate(call, address, bytes, MemoryType::pinned));
}

cudaError_t cudaFreeHost(void* address) {
  EMULATED_GPU_CALL("cudaFreeHost", Call::Capturing::refused);
  return Call::result(free_block(call, address, true));
}

cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned int flags) {
  EMULATED_GPU_CALL("cudaMallocManaged", Call::Capturing::refused);
  if (flags != cudaMemAttachGlobal || bytes == 0) return Call::result(cudaErrorInvalidValue);
  return Call::result(allocate(call, address, bytes, MemoryType::managed));
}

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaMallocAsync");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (address == nullptr) return Call::result(cudaErrorInvalidValue);
  // An allocation in a graph would be a new one at each launch, which is not emulated.
  if (stream->capture) return Call::result(break_capture(*stream, cudaErrorNotSupported));
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  DeviceState& device = state_of(stream->gpu);
  const std::size_t all = Runtime::instance().machine.devices[static_cast<std::size_t>(stream->gpu)].memory;
  if (bytes > all - device.allocated) return Call::result(cudaErrorMemoryAllocation);
  device.allocated += bytes;
  Block& block = Memory::instance().allocate(MemoryType::device, stream->gpu, bytes);
  block.live = false;
  *address = block.base;
  return Call::result(
      put(*stream, cudaGraphNodeTypeMemAlloc, [&block] { return std::make_unique<PoolTask>(block, false); }));
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaFreeAsync");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (stream->capture) return Call::result(break_capture(*stream, cudaErrorNotSupported));
  if (address == nullptr) return cudaSuccess;
  Block* block = Memory::instance().find(address);
  if (block == nullptr || block->base != address || block->type != MemoryType::device || block->was_freed)
    return Call::result(cudaErrorInvalidValue);
  return Call::result(
      put(*stream, cudaGraphNodeTypeMemFree, [block] { return std::make_unique<PoolTask>(*block, true); }));
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  EMULATED_GPU_CALL("cudaMemGetInfo");
  *total = Runtime::instance().machine.devices[static_cast<std::size_t>(current_gpu())].memory;
  *free_bytes = *total - state_of(current_gpu()).allocated;
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int /*flags*/) {
  EMULATED_GPU_CALL("cudaHostRegister", Call::Capturing::refused);
  if (address == nullptr || bytes == 0) return Call::result(cudaErrorInvalidValue);
  const bool is_new = Runtime::instance().registered.emplace(static_cast<std::byte*>(address), bytes).second;
  return is_new ? cudaSuccess : Call::result(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* address) {
  EMULATED_GPU_CALL("cudaHostUnregister", Call::Capturing::refused);
  const bool was = Runtime::instance().registered.erase(static_cast<std::byte*>(address)) > 0;
  return was ? cudaSuccess : Call::result(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  EMULATED_GPU_CALL("cudaHostGetDevicePointer");
  const Block* block = Memory::instance().find(host);
  if (flags != 0 || block == nullptr || !block->live) return Call::result(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  EMULATED_GPU_CALL("cudaPointerGetAttributes");
  if (attributes == nullptr) return Call::result(cudaErrorInvalidValue);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  const Block* block = Memory::instance().find(address);
  if (block == nullptr || block->was_freed) {
    const auto* byte = static_cast<const std::byte*>(address);
    const auto& all = Runtime::instance().registered;
    const bool is_registered = std::any_of(all.begin(), all.end(),
                                           [&](const auto& r) { return byte >= r.first && byte < r.first + r.second; });
    attributes->hostPointer = const_cast<void*>(address);
    if (!is_registered) return cudaSuccess;
    attributes->type = cudaMemoryTypeHost;
    attributes->device = current_gpu();
    attributes->devicePointer = const_cast<void*>(address);
    return cudaSuccess;
  }
  attributes->device = block->gpu;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = block->type == MemoryType::device ? nullptr : const_cast<void*>(address);
  attributes->type = block->type == MemoryType::device   ? cudaMemoryTypeDevice
                     : block->type == MemoryType::pinned ? cudaMemoryTypeHost
                                                         : cudaMemoryTypeManaged;
  return cudaSuccess;
}

}  // extern "C"
