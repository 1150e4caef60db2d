// SPDX-License-Identifier: Apache-2.0
// Memory for the collectives that all ranks of a communicator can reach: ncclMemAlloc, and its registration as a
// window.
#include "emulated_gpu/nccl/windows.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/nccl/call.hpp"
#include "emulated_gpu/nccl/group.hpp"

namespace emulated_gpu {
namespace {

struct RegisteredWindow {
  std::weak_ptr<Communicator> communicator;
  const void* memory;
};

struct WindowTable {
  std::set<const void*> memory;  // from ncclMemAlloc
  std::map<ncclWindow_t, RegisteredWindow> windows;
  std::uintptr_t last = 0;
};

/// Is guarded by the device's lock.
WindowTable& table() {
  static auto* all = new WindowTable;
  return *all;
}

/// Registers memory on all ranks. Waits for them.
ncclResult_t register_window(const std::shared_ptr<Communicator>& communicator, const void* memory, std::size_t bytes,
                             ncclWindow_t* window) {
  const std::string mine = std::to_string(bytes);
  const auto all = communicator->meet_again("window", mine);
  if (!all) return communicator->fail(ncclRemoteError, "ncclCommWindowRegister: a rank is gone");
  for (const std::string& other : *all)
    if (other != mine) violation("ncclCommWindowRegister: " + mine + " bytes here, and " + other + " on another rank");
  const std::scoped_lock lock(device_lock());
  const auto made = reinterpret_cast<ncclWindow_t>(++table().last);
  table().windows[made] = {communicator, memory};
  *window = made;
  return ncclSuccess;
}

}  // namespace

int count_windows() {
  const std::scoped_lock lock(device_lock());
  return static_cast<int>(table().windows.size());
}

void forget_windows(const Communicator& communicator) {
  const std::scoped_lock lock(device_lock());
  std::erase_if(table().windows,
                [&](const auto& entry) { return entry.second.communicator.lock().get() == &communicator; });
}

}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  EMULATED_NCCL_CALL("ncclMemAlloc");
  if (cudaMalloc(address, bytes) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, cudaGetErrorString(cudaGetLastError()));
  const std::scoped_lock lock(device_lock());
  table().memory.insert(*address);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* address) {
  EMULATED_NCCL_CALL("ncclMemFree");
  {
    const std::scoped_lock lock(device_lock());
    table().memory.erase(address);
    for (const auto& [window, registered] : table().windows)
      if (registered.memory == address) violation("ncclMemFree of memory that is registered as a window");
  }
  return cudaFree(address) == cudaSuccess ? ncclSuccess
                                          : refuse(ncclUnhandledCudaError, cudaGetErrorString(cudaGetLastError()));
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* memory, size_t bytes, ncclWindow_t* window,
                                    int /*flags*/) {
  EMULATED_NCCL_CALL("ncclCommWindowRegister");
  if (const ncclResult_t result = check_usable(handle); result != ncclSuccess) return result;
  if (memory == nullptr || bytes == 0 || window == nullptr)
    return refuse(ncclInvalidArgument, "ncclCommWindowRegister: no memory, or no place for the window");
  *window = nullptr;
  {
    const std::scoped_lock lock(device_lock());
    if (table().memory.count(memory) == 0)
      return refuse(ncclInvalidArgument, "ncclCommWindowRegister: the memory is not from ncclMemAlloc");
  }
  const std::shared_ptr<Communicator> communicator = handle->communicator;
  // GPUs that do not reach each other's memory have no windows.
  if (!communicator->reaches_peers()) return ncclSuccess;
  return add_to_group(communicator, [communicator, memory, bytes, window] {
    return register_window(communicator, memory, bytes, window);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  EMULATED_NCCL_CALL("ncclCommWindowDeregister");
  if (const ncclResult_t result = check_ready(handle); result != ncclSuccess) return result;
  if (window == nullptr) return ncclSuccess;
  const std::scoped_lock lock(device_lock());
  const auto found = table().windows.find(window);
  if (found == table().windows.end() || found->second.communicator.lock() != handle->communicator)
    violation("ncclCommWindowDeregister of a window that this communicator does not have");
  // With a sticky error, graphs cannot be destroyed.
  const Block* block = Memory::instance().find(found->second.memory);
  if (block != nullptr && block->graphs > 0 && state_of(block->gpu).sticky == cudaSuccess)
    violation("ncclCommWindowDeregister of a window that a graph uses");
  table().windows.erase(found);
  return ncclSuccess;
}

}  // extern "C"
