// SPDX-License-Identifier: Apache-2.0
// Decides which calls a capture accepts, which ones it refuses, and which ones end it.
// @source CUDA C++ Programming Guide 13.0, CUDA graphs, stream capture; CUDA Runtime API, cudaStreamBeginCapture,
// cudaThreadExchangeStreamCaptureMode
#include "emulated_gpu/cuda/capture.hpp"

#include <algorithm>
#include <utility>

#include "emulated_gpu/cuda/runtime.hpp"

namespace emulated_gpu {
namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

bool disturbs(const Capture& capture) {
  if (capture.is_broken || mode_of_thread == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id() && capture.mode != cudaStreamCaptureModeRelaxed) return true;
  return mode_of_thread == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

/// Returns whether everything in the streams comes before the last work of the origin.
bool is_joined(const Capture& capture) {
  std::set<const GraphNode*> before;
  std::vector<const GraphNode*> open(capture.origin->captured_tail.begin(), capture.origin->captured_tail.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (before.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return std::all_of(capture.graph->nodes.begin(), capture.graph->nodes.end(),
                     [&](const auto& node) { return before.count(node.get()) != 0; });
}

/// Ends a capture. Its streams are no longer captured.
void end(Capture& capture) {
  for (CUstream_st* stream : std::exchange(capture.streams, {})) {
    stream->captured_tail.clear();
    if (stream != capture.origin) stream->capture.reset();
  }
  capture.is_over = true;
  Runtime::instance().captures.erase(&capture);
}

/// Forgets what NCCL has registered for a capture that has failed, which events may still hold.
void forget_memory(const Capture& capture) {
  for (const auto& node : capture.graph->nodes) node->memory.reset();
}

cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!stream.capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const bool joined = is_joined(*capture);
  end(*capture);
  stream.capture.reset();
  if (capture->is_broken || !joined) {
    forget_memory(*capture);
    return capture->is_broken ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
  }
  *graph = capture->graph.release();
  return cudaSuccess;
}

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  if (stream.is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture) return cudaErrorIllegalState;
  Runtime& runtime = Runtime::instance();
  stream.capture = std::make_shared<Capture>();
  stream.capture->id = ++runtime.captures_begun;
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.capture->origin = &stream;
  stream.capture->streams.insert(&stream);
  runtime.captures.insert(stream.capture.get());
  return cudaSuccess;
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->is_broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace

GraphMemory::GraphMemory(const std::vector<const void*>& addresses) {
  for (const void* address : addresses)
    if (Block* block = Memory::instance().find(address); block != nullptr && blocks_.insert(block).second)
      ++block->graphs;
}

GraphMemory::~GraphMemory() {
  for (Block* block : blocks_) --block->graphs;
}

cudaError_t refuse_in_capture() {
  cudaError_t error = cudaSuccess;
  for (Capture* capture : Runtime::instance().captures) {
    if (!disturbs(*capture)) continue;
    capture->is_broken = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t refuse_legacy_in_capture(const CUstream_st& stream) {
  cudaError_t error = cudaSuccess;
  for (Capture* capture : Runtime::instance().captures) {
    const bool depends = std::any_of(capture->streams.begin(), capture->streams.end(), [&](const CUstream_st* other) {
      return other->gpu == stream.gpu && (other->flags & cudaStreamNonBlocking) == 0;
    });
    if (!stream.is_legacy || !depends || capture->is_broken) continue;
    capture->is_broken = true;
    error = cudaErrorStreamCaptureImplicit;
  }
  return error;
}

cudaError_t break_capture(const CUstream_st& stream, cudaError_t error) {
  const bool was_broken = std::exchange(stream.capture->is_broken, true);
  return was_broken ? cudaErrorStreamCaptureInvalidated : error;
}

cudaError_t break_capture_of(const CUevent_st& event, cudaError_t error) {
  event.capture->is_broken = true;
  return error;
}

cudaError_t capture_node(CUstream_st& stream, cudaGraphNodeType kind, Recipe recipe) {
  Capture& capture = *stream.capture;
  if (capture.is_broken) return cudaErrorStreamCaptureInvalidated;
  auto node = std::make_unique<GraphNode>();
  node->kind = kind;
  node->recipe = std::move(recipe);
  node->after.assign(stream.captured_tail.begin(), stream.captured_tail.end());
  node->gpu = stream.gpu;
  stream.captured_tail = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

cudaError_t capture_record(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture->is_broken) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.captured = stream.captured_tail;
  event.is_recorded = true;
  event.node.reset();
  return cudaSuccess;
}

cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event) {
  if (!event.capture) {
    if (stream.capture->is_broken) return cudaErrorStreamCaptureInvalidated;
    return event.is_recorded ? break_capture(stream, cudaErrorStreamCaptureIsolation) : cudaSuccess;
  }
  if (event.capture->is_over)
    return stream.capture ? break_capture(stream, cudaErrorStreamCaptureIsolation) : cudaErrorCapturedEvent;
  if (event.capture->is_broken) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture && stream.capture != event.capture) {
    event.capture->is_broken = true;
    return break_capture(stream, cudaErrorStreamCaptureMerge);
  }
  if (stream.is_legacy) return break_capture_of(event, cudaErrorStreamCaptureImplicit);
  stream.capture = event.capture;
  stream.capture->streams.insert(&stream);
  stream.captured_tail.insert(event.captured.begin(), event.captured.end());
  return cudaSuccess;
}

}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  EMULATED_GPU_CALL("cudaStreamBeginCapture");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  return Call::result(begin_capture(*stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call("cudaStreamEndCapture");
  CUstream_st* stream = find_stream(handle);
  if (call.error() != cudaSuccess) {
    if (stream != nullptr && stream->capture) forget_memory(*stream->capture);
    return Call::result(call.error());
  }
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  return Call::result(end_capture(*stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  EMULATED_GPU_CALL("cudaStreamIsCapturing");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_legacy_in_capture(*stream); error != cudaSuccess) return Call::result(error);
  *status = status_of(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  EMULATED_GPU_CALL("cudaStreamGetCaptureInfo");
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  *status = status_of(*stream);
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph.get();
  static thread_local std::vector<cudaGraphNode_t> tail;
  tail.assign(stream->captured_tail.begin(), stream->captured_tail.end());
  if (dependencies != nullptr) *dependencies = tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = tail.size();
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return Call::result(cudaErrorInvalidValue);
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

}  // extern "C"
