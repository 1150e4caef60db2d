// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"

/// The GPU functions that communication needs. In a build without CUDA, `gpu_count` is 0 and all other functions
/// @throws Error{unsupported} that says what was missing when lockstep was built. With CUDA they @throws Error{device}.
/// No function disturbs the capture of a stream that is not among its arguments.
namespace lockstep {

/// The number of GPUs that this process may use; 0 also if the driver is missing or too old. It never throws.
int gpu_count();
/// The reason why `gpu_count` is 0; empty if it is not 0.
std::string why_no_gpu();

struct GpuProperties {
  std::string name;        ///< "NVIDIA H200"
  std::string uuid;        ///< "GPU-…", as nvidia-smi prints it; the same in every process
  std::string pci_bus_id;  ///< "0000:1b:00.0"
  Bytes memory;
};
/// @pre 0 ≤ gpu < gpu_count()
GpuProperties gpu_properties(int gpu);

/// Versions such as "13.0": that of the newest runtime which the driver supports, and that of lockstep's own runtime.
struct GpuVersions {
  std::string driver;
  std::string runtime;
};
GpuVersions gpu_versions();

/// Memory of the selected GPU. Other processes may use it, too.
struct GpuMemory {
  Bytes free;
  Bytes total;
};
GpuMemory gpu_memory();

/// Selects the GPU for later calls of this thread.
void select_gpu(int gpu);

/// Which of the kernels that are ready a GPU begins first.
enum class StreamPriority { usual, highest };

/// A CUDA stream that does not synchronize with the default stream.
class Stream {
 public:
  explicit Stream(StreamPriority priority = StreamPriority::usual);
  Stream(Stream&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  [[nodiscard]] Queue queue() const { return Queue::stream(native_); }
  /// Blocks the host until all queued work is done.
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

  /// Moves the event to the end of the work queued on `stream`. @pre `stream` is no host queue
  void record(Queue stream);
  /// Whether the stream has reached the event. True if it was never recorded. @pre it was not recorded in a capture
  [[nodiscard]] bool reached() const;
  /// Orders later work of `stream` after the event. The host does not wait. @pre `stream` is no host queue
  void hold_back(Queue stream) const;

 private:
  void* native_ = nullptr;
};

/// Whether all work of `stream` is done. @pre `stream` is no host queue and is not captured
bool is_done(Queue stream);
/// Whether `stream` is being captured, so that its work goes into a graph. @pre `stream` is no host queue
/// @throws Error{invalid_argument} if the capture has failed and has not been ended yet
bool is_captured(Queue stream);

/// A stream's work that was captured as a CUDA graph, and can be launched any number of times.
class CapturedGraph {
 public:
  /// From now on the stream's work is captured instead of run. @pre `stream` is no host queue
  static void begin(Queue stream);
  /// Ends the capture. @throws also Error{device} if the work cannot be captured
  explicit CapturedGraph(Queue stream);
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph();

  void launch(Queue stream) const;

 private:
  [[maybe_unused]] void* native_ = nullptr;  // in builds without CUDA
};

/// Allocates zeroed memory of the selected GPU. It does not wait for streams of the program.
/// @throws also Error{out_of_memory} with the free memory
Allocation allocate_device(Bytes bytes);
/// Allocates zeroed page-locked host memory, from which copies to a GPU run asynchronously.
Allocation allocate_pinned(Bytes bytes);

/// Queues a copy; either side may be host memory. @pre `stream` is no host queue
void copy_bytes(void* to, const void* from, Bytes bytes, Queue stream);
/// Queues zeroing of GPU memory. @pre `stream` is no host queue
void clear_bytes(void* memory, Bytes bytes, Queue stream);
/// Zeroes GPU memory and waits for it. It does not wait for streams of the program.
void clear_now(const Buffer& buffer);
/// Queues a check of values in GPU memory: *mark = 1 if an element is infinite or NaN, else nothing is written.
/// @param mark  GPU memory @pre `stream` is no host queue
/// @throws also Error{unsupported} in a build without a CUDA compiler
void mark_not_finite(const ConstBuffer& values, std::uint32_t* mark, Queue stream);

}  // namespace lockstep
