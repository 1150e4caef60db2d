// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "emulated_gpu/device/random.hpp"

namespace emulated_gpu {

/// What a step of a task has come to.
enum class Step {
  done,     ///< the task is over
  moved,    ///< something was done, there is more
  waiting,  ///< nothing could be done: it waits for another GPU or process
};

/// Bytes of pinned memory that a task writes, which the host may not touch before it has waited for the task.
struct Landing {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool seen = false;  ///< the host has waited
};

/// What a GPU does for one operation of a stream, piece by piece. Steps run under the device's lock, on whichever
/// thread happens to drive the device; they do not block.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  /// Does a piece, as large as the random numbers like.
  virtual Step step(Random& random) = 0;
  /// For messages: "cudaMemcpyAsync of 64 bytes", "kernel fold", "ncclAllReduce".
  [[nodiscard]] virtual std::string what() const = 0;
  /// A kernel that waits for other ranks and keeps the GPU meanwhile: with some seeds no other kernel of this GPU
  /// starts until it is done, as on a GPU that it fills.
  [[nodiscard]] virtual bool fills_the_gpu() const { return false; }
  /// A kernel, of which the above holds.
  [[nodiscard]] virtual bool is_kernel() const { return fills_the_gpu(); }
  /// A function of the host's: run once, without the device's lock, on a thread of the emulation.
  [[nodiscard]] virtual const std::function<void()>* host_function() const { return nullptr; }
  /// Null for most.
  [[nodiscard]] virtual std::shared_ptr<Landing> landing() const { return nullptr; }
};

/// Makes the task: once where it is queued, or once for each launch of the graph that it was captured into, in the
/// order of the host's calls. Runs under the device's lock.
using Recipe = std::function<std::unique_ptr<Task>()>;

}  // namespace emulated_gpu
