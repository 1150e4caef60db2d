// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "emulated_gpu/device/task.hpp"

namespace emulated_gpu {

/// A kernel's launch, with its arguments as they were at the call.
struct KernelCall {
  std::string kernel;  ///< "fold"
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  ///< size of the dynamic shared memory
  std::function<void()> thread;  ///< the function of each thread
  int gpu = -1;                  ///< the GPU that it runs on, and whose memory it may use; -1: any
};

/// Runs the grid's blocks in random order, some with each step; each block's threads are fibers. @pre the launch fits
/// the device
std::unique_ptr<Task> run_grid(KernelCall call);

}  // namespace emulated_gpu
