// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/semantics/graph.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaGraph : public Gpu {};

using Types = std::map<cudaGraphNodeType, int>;

void put_fill(const Array<int>& memory, int value, cudaStream_t stream) {
  check(cudaMemsetAsync(memory.data(), value, memory.bytes(), stream));
}
void put_copy(const Array<int>& to, const Array<int>& from, cudaStream_t stream) {
  check(cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream));
}
std::vector<int> filled(int byte) { return std::vector<int>(16, 0x01010101 * byte); }

// CUDA Runtime API, Stream Management: cudaStreamBeginCapture; captured work is not executed
TEST_F(CudaGraph, DoesNothingUntilItIsLaunched) {
  const Array<int> memory(16);
  const Stream stream;
  const Graph graph(stream, [&] { put_fill(memory, 1, stream); });
  EXPECT_EQ(memory.values(), filled(0));
  const Executable executable(graph);
  EXPECT_EQ(memory.values(), filled(0));
  executable.launch(stream);
  EXPECT_EQ(memory.values(), filled(1));
}

// CUDA Runtime API, Stream Management: cudaStreamIsCapturing, cudaStreamGetCaptureInfo
TEST_F(CudaGraph, IsTold) {
  const Stream stream;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  unsigned long long id = 0;
  EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  std::vector<unsigned long long> ids;
  for (int i = 0; i < 2; ++i) {
    const Graph graph(stream, [&] {
      EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id), cudaSuccess);
      EXPECT_EQ(status, cudaStreamCaptureStatusActive);
      EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
      EXPECT_EQ(status, cudaStreamCaptureStatusActive);
      ids.push_back(id);
    });
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }
  EXPECT_NE(ids[0], ids[1]);
}

// CUDA Runtime API, Graph Management: cudaGraphGetNodes, cudaGraphNodeGetType; each operation becomes a node
TEST_F(CudaGraph, HasANodeForEachOperation) {
  const Array<int> first(16);
  const Array<int> second(16);
  const Stream stream;
  const Event event;
  const Graph graph(stream, [&] {
    put_fill(first, 1, stream);
    check(cudaEventRecord(event, stream));
    put_copy(second, first, stream);
    check(cudaLaunchHostFunc(
        stream, [](void*) {}, nullptr));
    put_fill(first, 2, stream);
  });
  EXPECT_EQ(graph.nodes_by_type(),
            (Types{{cudaGraphNodeTypeMemset, 2}, {cudaGraphNodeTypeMemcpy, 1}, {cudaGraphNodeTypeHost, 1}}));
}

// CUDA Runtime API, Graph Management: an empty capture is a graph without nodes, which can be launched
TEST_F(CudaGraph, MayBeEmpty) {
  const Stream stream;
  const Graph graph(stream, [] {});
  EXPECT_EQ(graph.nodes_by_type(), Types{});
  const Executable executable(graph);
  executable.launch(stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Cross-stream Dependencies and Events
TEST_F(CudaGraph, ForksAndJoinsByEvents) {
  const Array<int> first(16);
  const Array<int> second(16);
  const Array<int> third(16);
  const Stream stream;
  const Stream other;
  const Event forked;
  const Event joined;
  const Graph graph(stream, [&] {
    put_fill(first, 1, stream);
    check(cudaEventRecord(forked, stream));
    check(cudaStreamWaitEvent(other, forked, 0));
    put_copy(second, first, other);
    check(cudaEventRecord(joined, other));
    put_copy(third, first, stream);
    check(cudaStreamWaitEvent(stream, joined, 0));
    put_copy(first, second, stream);
  });
  EXPECT_EQ(graph.nodes_by_type(), (Types{{cudaGraphNodeTypeMemset, 1}, {cudaGraphNodeTypeMemcpy, 3}}));
  expect_usable(other);
  const Executable executable(graph);
  executable.launch(stream);
  EXPECT_EQ(second.values(), filled(1));
  EXPECT_EQ(third.values(), filled(1));
  EXPECT_EQ(first.values(), filled(1));
}

// CUDA Runtime API, Graph Management: cudaGraphLaunch comes after the work of the stream, and later work comes after it
TEST_F(CudaGraph, IsLaunchedInTheOrderOfTheStream) {
  const Array<int> from(16);
  const Array<int> to(16);
  const Array<int> kept(16);
  const Stream stream;
  const Graph graph(stream, [&] { put_copy(to, from, stream); });
  const Executable executable(graph);
  for (int i = 1; i < 10; ++i) {
    put_fill(from, i, stream);
    executable.launch(stream);
    put_fill(from, 0, stream);
    put_copy(kept, to, stream);
    put_fill(to, 0, stream);
    EXPECT_EQ(kept.values(), filled(i));
  }
}

// CUDA Runtime API, Graph Management: cudaGraphLaunch comes after earlier launches of the same executable, in any
// stream
TEST_F(CudaGraph, IsExecutedOnceAtATime) {
  const Array<int> memory(16);
  const Stream first(cudaStreamNonBlocking);
  const Stream second(cudaStreamNonBlocking);
  const Graph graph(first, [&] { put_fill(memory, 1, first); });
  const Executable executable(graph);
  Gate gate(first);
  executable.launch(first);
  executable.launch(second);
  EXPECT_TRUE(stays_busy(second));
  gate.open();
  EXPECT_TRUE(becomes_ready(second));
  first.synchronize();
  EXPECT_EQ(memory.values(), filled(1));
}

// CUDA Driver API, Graph Management: cuGraphExecDestroy frees an executable that is in flight after it is done
TEST_F(CudaGraph, GoesOnWhereItIsDestroyedMeanwhile) {
  const Array<int> memory(16);
  const Stream stream(cudaStreamNonBlocking);
  auto graph = std::make_unique<Graph>(stream, [&] { put_fill(memory, 1, stream); });
  auto executable = std::make_unique<Executable>(*graph);
  Gate gate(stream);
  executable->launch(stream);
  executable.reset();
  graph.reset();
  gate.open();
  stream.synchronize();
  EXPECT_EQ(memory.values(), filled(1));
}

// CUDA Runtime API, Graph Management: cudaGraphInstantiate makes an independent executable, more than once if requested
TEST_F(CudaGraph, IsInstantiatedAndThenNotNeeded) {
  const Array<int> memory(16);
  const Stream stream;
  auto graph = std::make_unique<Graph>(stream, [&] { put_fill(memory, 1, stream); });
  const Executable first(*graph);
  const Executable second(*graph);
  graph.reset();
  first.launch(stream);
  EXPECT_EQ(memory.values(), filled(1));
  put_fill(memory, 0, stream);
  second.launch(stream);
  EXPECT_EQ(memory.values(), filled(1));
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Graph Structure, Node Types: host functions, called in every launch
TEST_F(CudaGraph, CallsHostFunctionsInEveryLaunch) {
  const Stream stream;
  std::atomic<int> calls = 0;
  const Graph graph(stream, [&] {
    check(cudaLaunchHostFunc(
        stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls));
  });
  const Executable executable(graph);
  EXPECT_EQ(calls, 0);
  for (int i = 0; i < 5; ++i) executable.launch(stream);
  stream.synchronize();
  EXPECT_EQ(calls, 5);
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs: a graph reads memory when it is executed, not when it is captured
TEST_F(CudaGraph, ReadsPinnedMemoryInEveryLaunch) {
  const Pinned<int> from(16);
  const Pinned<int> to(16);
  const Array<int> memory(16);
  const Stream stream;
  const Graph graph(stream, [&] {
    check(cudaMemcpyAsync(memory.data(), from.data(), from.bytes(), cudaMemcpyHostToDevice, stream));
    check(cudaMemcpyAsync(to.data(), memory.data(), to.bytes(), cudaMemcpyDeviceToHost, stream));
  });
  const Executable executable(graph);
  for (int i = 0; i < 3; ++i) {
    from[3] = i;
    executable.launch(stream);
    stream.synchronize();
    EXPECT_EQ(to[3], i);
  }
}

// CUDA Runtime API, Graph Management: cudaGraphExecUpdate of parameters; CUDA C++ Programming Guide 13.0, Updating
// Instantiated Graphs: it affects later launches, but not earlier ones
TEST_F(CudaGraph, IsUpdatedForLaterLaunches) {
  const Array<int> first(16);
  const Array<int> second(16);
  const Array<int> third(16);
  const Stream stream;
  const Graph graph(stream, [&] {
    put_fill(first, 1, stream);
    put_copy(second, first, stream);
  });
  const Graph update(stream, [&] {
    put_fill(first, 2, stream);
    put_copy(third, first, stream);
  });
  const Executable executable(graph);
  Gate gate(stream);
  executable.launch(stream);
  // No document says that the update does not wait for the launch.
  const std::jthread opener([&gate] { gate.open(); });
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable, update, &info), cudaSuccess);
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  executable.launch(stream);
  stream.synchronize();
  EXPECT_EQ(second.values(), filled(1));
  EXPECT_EQ(third.values(), filled(2));
}

cudaGraphExecUpdateResult refusal_of(const Graph& graph, const Graph& update) {
  const Executable executable(graph);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable, update, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorGraphExecUpdateFailure);
  return info.result;
}

// CUDA Runtime API, Graph Management: cudaGraphExecUpdate fails for another number of nodes, type or dependency
TEST_F(CudaGraph, IsNotUpdatedToAnother) {
  const Array<int> first(16);
  const Array<int> second(16);
  const Stream stream;
  const Stream other;
  const Event forked;
  const Event joined;
  const Graph graph(stream, [&] {
    put_fill(first, 1, stream);
    put_fill(second, 1, stream);
  });
  const Graph chain(stream, [&] {
    put_fill(first, 1, stream);
    put_fill(second, 1, stream);
    put_fill(first, 2, stream);
  });
  const Graph of_other_type(stream, [&] {
    put_fill(first, 1, stream);
    put_copy(second, first, stream);
  });
  EXPECT_EQ(refusal_of(graph, chain), cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT_EQ(refusal_of(graph, of_other_type), cudaGraphExecUpdateErrorNodeTypeChanged);
  const Graph fork(stream, [&] {
    check(cudaEventRecord(forked, stream));
    check(cudaStreamWaitEvent(other, forked, 0));
    put_fill(first, 1, stream);
    put_fill(second, 1, other);
    check(cudaEventRecord(joined, other));
    check(cudaStreamWaitEvent(stream, joined, 0));
    put_fill(first, 2, stream);
  });
  EXPECT_EQ(refusal_of(chain, fork), cudaGraphExecUpdateErrorTopologyChanged);
}

}  // namespace
}  // namespace emulated_gpu::semantics
