// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <utility>
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {

/// Ends the stream's capture, whatever its state.
inline void leave_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) check(cudaGraphDestroy(graph));
  cudaGetLastError();
}

inline cudaGraph_t end_of_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  return graph;
}

/// Expects that the stream is not captured and does queued work.
inline void expect_usable(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  const Array<int> memory(1);
  EXPECT_EQ(cudaMemsetAsync(memory.data(), 1, sizeof(int), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(memory.values(), std::vector<int>{0x01010101});
}

/// A graph that is captured from a stream.
class Graph {
 public:
  /// @param body  puts the graph's work on the stream
  template <typename Body>
  Graph(cudaStream_t stream, const Body& body, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    check(cudaStreamBeginCapture(stream, mode));
    body();
    graph_ = end_of_capture(stream);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphDestroy(graph_); }
  operator cudaGraph_t() const { return graph_; }  // NOLINT: as a handle, it goes into every call

  [[nodiscard]] std::map<cudaGraphNodeType, int> nodes_by_type() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    if (count > 0) check(cudaGraphGetNodes(graph_, nodes.data(), &count));
    std::map<cudaGraphNodeType, int> types;
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
      check(cudaGraphNodeGetType(node, &type));
      ++types[type];
    }
    return types;
  }

 private:
  cudaGraph_t graph_ = nullptr;
};

/// An executable of a graph, which may be destroyed afterwards.
class Executable {
 public:
  explicit Executable(cudaGraph_t graph) { check(cudaGraphInstantiate(&executable_, graph, 0)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  operator cudaGraphExec_t() const { return executable_; }  // NOLINT
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace emulated_gpu::semantics
