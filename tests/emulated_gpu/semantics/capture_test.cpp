// SPDX-License-Identifier: Apache-2.0
// Tests what ends a capture, and what does not. graph_test.cpp tests the captured graphs.
#include <vector>

#include "emulated_gpu/semantics/graph.hpp"
#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaCapture : public Gpu {};

/// Fills 64 bytes, which belong to no capture but the stream's own.
class Filling {
 public:
  [[nodiscard]] cudaError_t put(cudaStream_t stream) const { return cudaMemsetAsync(memory_.data(), 1, 64, stream); }

 private:
  Array<unsigned char> memory_ = Array<unsigned char>(64);
};

/// Expects that the stream's capture was invalidated, that its end returns this, and that the stream is usable
/// afterwards.
/// @source CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Invalidation
void expect_invalidated(const Stream& stream, const Filling& filling) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  EXPECT_NE(filling.put(stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
  expect_usable(stream);
}

// CUDA Runtime API, Stream Management: cudaStreamBeginCapture is not allowed for the legacy stream
TEST_F(CudaCapture, IsNotOfTheLegacyStream) {
  EXPECT_NE(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_NE(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaSuccess);
  cudaGetLastError();
  expect_usable(nullptr);
}

// CUDA Runtime API, Stream Management: cudaStreamBeginCapture is not allowed for a stream that is being captured
TEST_F(CudaCapture, IsNotBegunTwice) {
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_NE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  leave_capture(stream);
  expect_usable(stream);
}

// CUDA Runtime API, Stream Management: cudaStreamEndCapture is not allowed for a stream that is not being captured
TEST_F(CudaCapture, IsNotEndedBeforeItIsBegun) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGetLastError();
  expect_usable(stream);
}

// CUDA Runtime API, Stream Management: cudaStreamEndCapture must be called by the thread that began the capture, unless
// the mode is relaxed
TEST_F(CudaCapture, IsEndedByTheThreadThatBeganIt) {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const Stream stream;
    check(cudaStreamBeginCapture(stream, mode));
    cudaGraph_t graph = nullptr;
    on_another_thread([&] {
      check(cudaSetDevice(0));
      EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
    });
    leave_capture(stream);
    expect_usable(stream);
  }
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  cudaGraph_t graph = nullptr;
  on_another_thread([&] {
    check(cudaSetDevice(0));
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  });
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Prohibited and Unhandled Operations: a stream that is
// being captured may be neither synchronized nor queried
TEST_F(CudaCapture, IsInvalidatedBySynchronization) {
  const Filling filling;
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    const Stream stream;
    check(cudaStreamBeginCapture(stream, mode));
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(stream, filling);
    check(cudaStreamBeginCapture(stream, mode));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(stream, filling);
  }
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Prohibited and Unhandled Operations: the device may not
// be synchronized, either
TEST_F(CudaCapture, IsInvalidatedBySynchronizationOfTheDevice) {
  const Filling filling;
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  expect_invalidated(stream, filling);
}

// CUDA Runtime API, Data types, cudaErrorCapturedEvent; cudaThreadExchangeStreamCaptureMode: this also holds in the
// relaxed mode
TEST_F(CudaCapture, HasEventsThatAreNotLookedAt) {
  const Stream stream;
  const Event event;
  for (const auto look : {cudaEventQuery, cudaEventSynchronize}) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    check(cudaEventRecord(event, stream));
    EXPECT_EQ(look(event), cudaErrorCapturedEvent);
    leave_capture(stream);
    expect_usable(stream);
    check(cudaEventRecord(event, stream));
    EXPECT_TRUE(becomes_complete(event));
  }
}

// CUDA Runtime API, Stream Management: cudaThreadExchangeStreamCaptureMode: strict modes do not allow cudaMalloc
TEST_F(CudaCapture, IsInvalidatedByAllocationUnlessRelaxed) {
  const Filling filling;
  void* memory = nullptr;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const Stream stream;
    check(cudaStreamBeginCapture(stream, mode));
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
    expect_invalidated(stream, filling);
  }
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  check(cudaGraphDestroy(end_of_capture(stream)));
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

// CUDA Runtime API, Stream Management: cudaThreadExchangeStreamCaptureMode: only the global mode restricts other
// threads
TEST_F(CudaCapture, IsInvalidatedByAllocationOfOtherThreadsIfGlobal) {
  const Filling filling;
  const auto allocate_on_another_thread = [] {
    cudaError_t error = cudaSuccess;
    on_another_thread([&error] {
      void* memory = nullptr;
      check(cudaSetDevice(0));
      error = cudaMalloc(&memory, 64);
      if (error == cudaSuccess) check(cudaFree(memory));
    });
    return error;
  };
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(allocate_on_another_thread(), cudaErrorStreamCaptureUnsupported);
  expect_invalidated(stream, filling);
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    check(cudaStreamBeginCapture(stream, mode));
    EXPECT_EQ(allocate_on_another_thread(), cudaSuccess);
    check(cudaGraphDestroy(end_of_capture(stream)));
  }
}

// CUDA Runtime API, Stream Management: cudaThreadExchangeStreamCaptureMode allows a thread what a capture forbids
TEST_F(CudaCapture, IsNotInvalidatedByWhatAThreadIsLet) {
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  check(cudaGraphDestroy(end_of_capture(stream)));
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Prohibited and Unhandled Operations: the legacy stream
// may not be used while a blocking stream is captured
TEST_F(CudaCapture, OfABlockingStreamIsInvalidatedByUseOfTheLegacyStream) {
  const Filling filling;
  const Stream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(filling.put(cudaStreamLegacy), cudaErrorStreamCaptureImplicit);
  expect_invalidated(stream, filling);
}

// The legacy stream may be used while a non-blocking stream is captured.
TEST_F(CudaCapture, OfANonBlockingStreamIsNotDisturbedByUseOfTheLegacyStream) {
  const Filling filling;
  const Stream stream(cudaStreamNonBlocking);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(filling.put(cudaStreamLegacy), cudaSuccess);
  check(cudaGraphDestroy(end_of_capture(stream)));
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Prohibited and Unhandled Operations: synchronous copies
// are not allowed, because they use the legacy stream
TEST_F(CudaCapture, OfABlockingStreamIsInvalidatedByASynchronousCopy) {
  const Filling filling;
  const Stream stream;
  const Array<int> memory(4);
  std::vector<int> host(4);
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_NE(cudaMemcpy(host.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  expect_invalidated(stream, filling);
}

// CUDA Runtime API, Data types, cudaErrorStreamCaptureIsolation: only the order within a stream crosses the boundary
TEST_F(CudaCapture, DoesNotWaitForWhatWasRecordedOutside) {
  const Filling filling;
  const Stream outside;
  const Stream stream;
  const Event event;
  check(cudaEventRecord(event, outside));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
  expect_invalidated(stream, filling);
}

// CUDA Runtime API, Data types, cudaErrorStreamCaptureMerge
TEST_F(CudaCapture, IsNotMergedWithAnother) {
  const Stream first;
  const Stream second;
  const Event event;
  check(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  check(cudaStreamBeginCapture(second, cudaStreamCaptureModeRelaxed));
  check(cudaEventRecord(event, first));
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaErrorStreamCaptureMerge);
  leave_capture(first);
  leave_capture(second);
  expect_usable(first);
  expect_usable(second);
}

/// Makes `other` join the capture of `stream`, with work of its own.
void fork(const Stream& stream, const Stream& other, const Event& event, const Filling& filling) {
  check(cudaEventRecord(event, stream));
  check(cudaStreamWaitEvent(other, event, 0));
  check(filling.put(other));
}

// CUDA Runtime API, Data types, cudaErrorStreamCaptureUnjoined
TEST_F(CudaCapture, EndsBehindAllStreamsThatHaveJoined) {
  const Filling filling;
  const Stream stream;
  const Stream other;
  const Event event;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  fork(stream, other, event, filling);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaGetLastError();
  expect_usable(stream);
  expect_usable(other);
}

// CUDA Runtime API, Data types, cudaErrorStreamCaptureUnmatched
TEST_F(CudaCapture, IsEndedInTheStreamInWhichItWasBegun) {
  const Filling filling;
  const Stream stream;
  const Stream other;
  const Event event;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  fork(stream, other, event, filling);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
  leave_capture(stream);
  expect_usable(stream);
  expect_usable(other);
}

// CUDA C++ Programming Guide 13.0, CUDA Graphs, Stream Capture, Invalidation: all streams of a capture are invalid
// until it is ended
TEST_F(CudaCapture, IsInvalidInEveryStreamThatHasJoined) {
  const Filling filling;
  const Stream stream;
  const Stream other;
  const Event event;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  fork(stream, other, event, filling);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorStreamCaptureUnsupported);
  EXPECT_NE(filling.put(other), cudaSuccess);
  EXPECT_NE(cudaEventRecord(event, stream), cudaSuccess);
  expect_invalidated(stream, filling);
  expect_usable(other);
}

}  // namespace
}  // namespace emulated_gpu::semantics
