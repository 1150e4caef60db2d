// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "emulated_gpu/device/engine.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/device/task.hpp"

namespace emulated_gpu {

/// The memory that NCCL registers for an operation in a graph, until the graph and its executables are destroyed.
/// Callers hold the device's lock.
/// @source NCCL 2.28 documentation, User Buffer Registration: buffers of captured operations are registered, and
/// deregistered when the graph is destroyed; they are not freed before
class GraphMemory {
 public:
  explicit GraphMemory(const std::vector<const void*>& addresses);
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();

 private:
  std::set<Block*> blocks_;
};

}  // namespace emulated_gpu

struct CUgraphNode_st {
  cudaGraphNodeType kind = cudaGraphNodeTypeEmpty;
  emulated_gpu::Recipe recipe;
  std::shared_ptr<const emulated_gpu::GraphMemory> memory;
  std::vector<CUgraphNode_st*> after;
  int gpu = 0;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< each one comes after its dependencies
};

namespace emulated_gpu {

using GraphNode = CUgraphNode_st;

/// The state of a capture from cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  ///< the thread that began it
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams;  ///< streams that have joined, the origin included
  bool is_broken = false;          ///< whether it was invalidated
  bool is_over = false;
};

/// Returns why the calling thread may not make a call that might disturb a capture. Invalidates the captures that it
/// would disturb.
cudaError_t refuse_in_capture();
/// Does the same for work in the legacy stream, which waits for every blocking stream.
cudaError_t refuse_legacy_in_capture(const CUstream_st& stream);
/// Invalidates the stream's capture. @return `error`, or that an earlier error has invalidated it
cudaError_t break_capture(const CUstream_st& stream, cudaError_t error);
/// Does the same for the use of an event that the capture recorded.
cudaError_t break_capture_of(const CUevent_st& event, cudaError_t error);
cudaError_t capture_node(CUstream_st& stream, cudaGraphNodeType kind, Recipe recipe);
/// Implements cudaEventRecord for a stream that is captured.
cudaError_t capture_record(CUstream_st& stream, CUevent_st& event);
/// Implements cudaStreamWaitEvent if the stream, or the event's recorded work, is captured.
cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event);

}  // namespace emulated_gpu
