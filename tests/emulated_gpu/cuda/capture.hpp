// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "emulated_gpu/device/engine.hpp"
#include "emulated_gpu/device/task.hpp"

struct CUgraphNode_st {
  cudaGraphNodeType kind = cudaGraphNodeTypeEmpty;
  emulated_gpu::Recipe recipe;
  std::vector<CUgraphNode_st*> after;
  int gpu = 0;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< each behind those that it comes after
};

namespace emulated_gpu {

using GraphNode = CUgraphNode_st;

/// From cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  std::uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  ///< that began it
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams;  ///< that have joined, the origin among them
  bool is_broken = false;          ///< invalidated
  bool is_over = false;
};

/// Why the calling thread may not make a call that might disturb a capture; breaks the captures that it would disturb.
cudaError_t refuse_in_capture();
/// The same of work for the legacy stream, which waits for every stream that blocks.
cudaError_t refuse_legacy_in_capture(const CUstream_st& stream);
/// @return `error`, which invalidates the stream's capture; or that an earlier one has
cudaError_t break_capture(const CUstream_st& stream, cudaError_t error);
/// The same where an event is used that the capture recorded.
cudaError_t break_capture_of(const CUevent_st& event, cudaError_t error);
cudaError_t capture_node(CUstream_st& stream, cudaGraphNodeType kind, Recipe recipe);
/// cudaEventRecord of a stream that is captured.
cudaError_t capture_record(CUstream_st& stream, CUevent_st& event);
/// cudaStreamWaitEvent where the stream, or what the event has recorded, is captured.
cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event);

}  // namespace emulated_gpu
