// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the files of the runtime share: its state, and the beginning and end of every call.

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulated_gpu/cuda/capture.hpp"
#include "emulated_gpu/cuda/error.hpp"
#include "emulated_gpu/cuda/queue.hpp"
#include "emulated_gpu/device/engine.hpp"
#include "emulated_gpu/device/machine.hpp"
#include "emulated_gpu/device/memory.hpp"

struct CUstream_st {
  int gpu = 0;
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  bool is_legacy = false;
  emulated_gpu::NodePtr tail;  ///< the last node that was queued
  std::shared_ptr<emulated_gpu::Capture> capture;
  std::set<emulated_gpu::GraphNode*> captured_tail;
};

struct CUevent_st {
  int gpu = 0;
  unsigned flags = cudaEventDefault;
  bool is_recorded = false;
  emulated_gpu::NodePtr node;  ///< the stream's last node when the event was last recorded
  std::shared_ptr<emulated_gpu::Capture> capture;
  std::set<emulated_gpu::GraphNode*> captured;
};

namespace emulated_gpu {

/// The program's resources on one device.
struct DeviceState {
  CUstream_st legacy;
  std::map<int, std::unique_ptr<CUstream_st>> per_thread;
  std::size_t allocated = 0;
  NodePtr last_of_destroyed;           ///< comes after the work of destroyed streams
  NodePtr last_of_destroyed_blocking;  ///< the same for blocking streams, for which the legacy stream waits
  cudaError_t sticky = cudaSuccess;    ///< if set, every later call fails with it
  std::set<int> peers;
};

struct Runtime {
  static Runtime& instance();

  Machine machine;
  std::deque<DeviceState> devices;
  std::set<CUstream_st*> streams;  ///< streams that the program has created and not destroyed
  std::set<CUevent_st*> events;
  std::map<const std::byte*, std::size_t> registered;  ///< memory of cudaHostRegister, with the number of bytes
  std::set<Capture*> captures;                         ///< captures under way
  std::uint64_t captures_begun = 0;

 private:
  Runtime();
};

/// A call of the runtime. It holds the device's lock, lets the GPUs make progress, and knows whether it must fail.
class Call {
 public:
  /// Whether a capture allows the call.
  enum class Capturing { allowed, refused };
  /// @param capturing  refused: the call, such as cudaMalloc, is not allowed during a capture in a strict mode
  explicit Call(const char* name, Capturing capturing = Capturing::allowed);
  [[nodiscard]] cudaError_t error() const { return error_; }
  /// Records the result of the call for cudaGetLastError.
  static cudaError_t result(cudaError_t code);
  /// Blocks the host, without the lock, until the node is done or its device fails.
  cudaError_t wait_for(const NodePtr& node, int gpu);
  /// Does the same for all work of the device.
  cudaError_t wait_for_device(int gpu);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  cudaError_t error_ = cudaSuccess;
};

int& current_gpu();
DeviceState& state_of(int gpu);
/// Returns null if there is no such stream. Null, legacy and per-thread handles are those of the current device.
CUstream_st* find_stream(cudaStream_t handle);
CUevent_st* find_event(cudaEvent_t handle);

/// Returns the nodes that a new node of the stream depends on.
std::vector<NodePtr> order_behind(const CUstream_st& stream);
/// Puts a node into the stream, or into the graph that captures it.
cudaError_t put(CUstream_st& stream, cudaGraphNodeType kind, Recipe recipe);
/// Adds a node after all work of the stream.
NodePtr mark(CUstream_st& stream, std::vector<NodePtr> also_after = {});
/// Returns all nodes of the device.
std::vector<NodePtr> all_of(int gpu);
/// Marks that this thread runs a host function of a stream, which may not call the runtime.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
};

/// Begins every function of the runtime: `call` is its Call, and an injected or sticky error is returned.
#define EMULATED_GPU_CALL(...)            \
  ::emulated_gpu::Call call(__VA_ARGS__); \
  if (call.error() != cudaSuccess) return ::emulated_gpu::Call::result(call.error())

}  // namespace emulated_gpu
