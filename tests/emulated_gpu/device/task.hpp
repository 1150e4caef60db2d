// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "emulated_gpu/device/random.hpp"

namespace emulated_gpu {

/// The result of a step of a task.
enum class Step {
  done,     ///< the task is over
  moved,    ///< something was done, but there is more
  waiting,  ///< nothing could be done, because it waits for another GPU or process
};

/// Bytes of pinned memory that a task writes, which the host may not access before it has waited for the task.
struct Landing {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool seen = false;  ///< whether the host has waited
};

/// The work of a GPU for one operation of a stream, in pieces. Steps run under the device's lock, on the thread that
/// drives the device; they do not block.
class Task {
 public:
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  /// Does a piece of random size.
  virtual Step step(Random& random) = 0;
  /// Names the task for messages: "cudaMemcpyAsync of 64 bytes", "kernel fold", "ncclAllReduce".
  [[nodiscard]] virtual std::string what() const = 0;
  /// Returns whether it is a kernel that waits for other ranks and occupies the GPU meanwhile. With some seeds no other
  /// kernel of this GPU starts until it is done, as on a GPU that it fills.
  [[nodiscard]] virtual bool fills_the_gpu() const { return false; }
  /// Returns whether it is a kernel, which such a kernel delays.
  [[nodiscard]] virtual bool is_kernel() const { return fills_the_gpu(); }
  /// Returns the host function, which runs once, without the device's lock, on a thread of the emulation.
  [[nodiscard]] virtual const std::function<void()>* host_function() const { return nullptr; }
  /// Returns the pinned memory that it writes; null for most tasks.
  [[nodiscard]] virtual std::shared_ptr<Landing> landing() const { return nullptr; }
};

/// Makes the task: once when it is queued, or once for each launch of the graph into which it was captured, in the
/// order of the host's calls. Runs under the device's lock.
using Recipe = std::function<std::unique_ptr<Task>()>;

}  // namespace emulated_gpu
