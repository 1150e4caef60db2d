// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a library beside the runtime (NCCL's, the kernels) puts work on a stream.

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>

#include "emulated_gpu/device/task.hpp"

namespace emulated_gpu {

/// The lock under which everything of this process's GPUs happens. Recursive.
std::recursive_mutex& device_lock();

/// Puts on the stream, behind what it has, what `recipe` makes; or, while the stream is captured, into the graph.
/// @param kind  of the node in a graph: cudaGraphNodeTypeKernel, …
/// @return as any call of the runtime: cudaErrorInvalidResourceHandle for a stream that there is not, a sticky error, …
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType kind, Recipe recipe);

/// Lets the GPUs do something, if they like. Called by whatever polls.
void let_the_gpus_work();

/// The GPU that the calling thread has selected, by its number in the machine's description, and what tells it apart.
struct DeviceIdentity {
  int number = 0;
  std::string uuid;        ///< "GPU-…" or "MIG-…"
  std::string pci_bus_id;  ///< "0000:1b:00.0"
};
DeviceIdentity current_device();

}  // namespace emulated_gpu
