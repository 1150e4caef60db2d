// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/queue.hpp"

namespace lockstep::ops {

/// The memory of a device. Other processes may use a part of it.
struct DeviceMemory {
  Bytes free;
  Bytes total;
};

/// A point in a queue of a device.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Moves the event to the end of the work submitted to the queue. @throws Error{device}
  virtual void record(Queue queue) = 0;
  /// Orders later work of the queue after the event. The host does not wait. @throws Error{device}
  virtual void hold_back(Queue queue) const = 0;
  /// Whether the work before the event is done. @throws Error{device}
  [[nodiscard]] virtual bool is_done() const = 0;
};

/// Work that was captured and can be submitted any number of times.
class ExecutableGraph {
 public:
  virtual ~ExecutableGraph() = default;
  /// Submits the work. @throws Error{device}
  virtual void launch(Queue queue) const = 0;
};

/// The device of a compute library: memory, and a queue that orders the work.
class ComputeDevice {
 public:
  /// @param deadline  how long `wait` blocks at most
  explicit ComputeDevice(std::chrono::duration<double> deadline = usual_deadline) : deadline_(deadline) {}
  virtual ~ComputeDevice() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  ///< "cpu", "cuda"
  /// The queue to which steps are submitted: the host's queue runs work at once.
  [[nodiscard]] virtual Queue queue() const = 0;
  /// A queue for the copies of inputs, which may run while steps run; it may be `queue()`.
  [[nodiscard]] virtual Queue copy_queue() const { return queue(); }
  /// The device's own memory; nothing if it uses the host's. @throws Error{device}
  [[nodiscard]] virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  /// Allocates zeroed memory that kernels use. @throws std::bad_alloc; Error{device | out_of_memory}
  [[nodiscard]] virtual Allocation allocate(Bytes bytes) const = 0;
  /// Allocates zeroed host memory, from and to which copies need not block the host. @throws as allocate
  [[nodiscard]] virtual Allocation allocate_staging(Bytes bytes) const = 0;
  /// Copies between any memory of the host and of the device.
  virtual void copy(void* to, const void* from, Bytes bytes, Queue queue) const = 0;
  /// Overwrites memory of the device with zeros.
  virtual void clear(void* memory, Bytes bytes, Queue queue) const = 0;
  /// Whether the queue's work is done. @throws Error{device}
  [[nodiscard]] virtual bool is_idle(Queue queue) const = 0;
  /// Blocks the host until the queue's work is done. @throws Error{device}; Error{timeout} after the device's deadline
  void wait(Queue queue) const;

  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> new_event() const = 0;

  /// Captures what `submit` submits to the queue; nothing runs. @return null if the device captures nothing
  /// @throws what `submit` throws; Error{device}
  [[nodiscard]] virtual std::unique_ptr<ExecutableGraph> capture(Queue /*queue*/,
                                                                 const std::function<void()>& /*submit*/) const {
    return nullptr;
  }

 private:
  std::chrono::duration<double> deadline_;
};

/// The processors of this machine, with memory of the host.
const ComputeDevice& host_device();

}  // namespace lockstep::ops
