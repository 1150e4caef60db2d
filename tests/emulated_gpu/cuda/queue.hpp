// SPDX-License-Identifier: Apache-2.0
#pragma once

// How libraries other than the runtime (NCCL and the kernels) put work on a stream.

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <vector>

#include "emulated_gpu/device/task.hpp"

namespace emulated_gpu {

/// Returns the lock that guards all GPUs of this process. It is recursive.
std::recursive_mutex& device_lock();

/// Puts the task that `recipe` makes on the stream, after its other work, or into the graph if the stream is captured.
/// @param kind  kind of the node in a graph: cudaGraphNodeTypeKernel, …
/// @param registered  addresses in the memory that may not be freed before this graph is destroyed
/// @return as any call of the runtime: cudaErrorInvalidResourceHandle for an unknown stream, a sticky error, …
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType kind, Recipe recipe,
                    const std::vector<const void*>& registered = {});

/// Gives the GPUs an opportunity to make progress. Every function that polls calls it.
void let_the_gpus_work();

/// The GPU that the calling thread has selected: its number in the machine's description, and its identifiers.
struct DeviceIdentity {
  int number = 0;
  std::string uuid;        ///< "GPU-…" or "MIG-…"
  std::string pci_bus_id;  ///< "0000:1b:00.0"
};
DeviceIdentity current_device();

}  // namespace emulated_gpu
