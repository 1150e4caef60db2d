// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"

/// GPUs, as far as communication needs them. In a build without CUDA there are none: `gpu_count` is 0 and everything
/// else @throws Error{unsupported}, saying what was missing when lockstep was built. With CUDA, @throws Error{device}.
/// Nothing here disturbs the capture of a stream that it is not called with.
namespace lockstep {

/// GPUs that this process may use; 0 also where the driver is missing or too old. Never throws.
int gpu_count();
/// Why `gpu_count` is 0; empty where it is not.
std::string why_no_gpu();

struct GpuProperties {
  std::string name;        ///< "NVIDIA H200"
  std::string uuid;        ///< as nvidia-smi prints it: "GPU-…"; the same in every process
  std::string pci_bus_id;  ///< "0000:1b:00.0"
  Bytes memory;
};
/// @pre 0 ≤ gpu < gpu_count()
GpuProperties gpu_properties(int gpu);

/// Versions as "13.0"; the driver's is the newest runtime it can serve.
struct GpuVersions {
  std::string driver;
  std::string runtime;
};
GpuVersions gpu_versions();

/// The GPU that the calling thread's later calls are for.
void select_gpu(int gpu);

/// A CUDA stream that runs beside the default one.
class Stream {
 public:
  Stream();
  Stream(Stream&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  [[nodiscard]] Queue queue() const { return Queue::stream(native_); }
  /// Blocks the host until everything queued is done.
  void synchronize();

 private:
  void* native_ = nullptr;
};

/// A point in a stream.
class Event {
 public:
  Event();
  Event(Event&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  /// Moves the event to the end of what `stream` has queued. @pre `stream` is no host queue
  void record(Queue stream);
  /// Whether the stream has got there. True for an event that was never recorded. @pre it was not recorded in a capture
  [[nodiscard]] bool reached() const;
  /// What `stream` gets from here on starts after the event. The host does not wait. @pre `stream` is no host queue
  void hold_back(Queue stream) const;

 private:
  void* native_ = nullptr;
};

/// Whether what `stream` gets goes into a graph, instead of being done. @pre `stream` is no host queue
/// @throws Error{invalid_argument} if it did, until something ended the capture
bool is_captured(Queue stream);

/// Zeroed memory of the selected GPU. Waits for no stream of the program's.
Allocation allocate_device(Bytes bytes);
/// Zeroed page-locked host memory, from which copies to a GPU run beside the host.
Allocation allocate_pinned(Bytes bytes);

/// Queues a copy; either side may be the host's. @pre `stream` is no host queue
void copy_bytes(void* to, const void* from, Bytes bytes, Queue stream);
/// Queues that a GPU's memory becomes zeros. @pre `stream` is no host queue
void clear_bytes(void* memory, Bytes bytes, Queue stream);
/// The same at once: the host waits for it, and for no stream of the program's.
void clear_now(const Buffer& buffer);

}  // namespace lockstep
