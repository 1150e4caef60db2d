// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaError : public Gpu {};

void fail() { EXPECT_EQ(cudaSetDevice(gpu_count()), cudaErrorInvalidDevice); }

// CUDA Runtime API, Error Handling: cudaGetLastError, cudaPeekAtLastError
TEST_F(CudaError, IsForgottenByGetAndNotByPeek) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  fail();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// CUDA Runtime API, Error Handling: cudaGetLastError returns the last error, even if later calls succeeded
TEST_F(CudaError, OutlivesCallsThatSucceed) {
  fail();
  int gpu = -1;
  EXPECT_EQ(cudaGetDevice(&gpu), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

// CUDA Runtime API, Error Handling: cudaGetLastError belongs to the host thread
TEST_F(CudaError, IsOfOneThread) {
  fail();
  cudaError_t of_another = cudaErrorUnknown;
  on_another_thread([&] { of_another = cudaGetLastError(); });
  EXPECT_EQ(of_another, cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

// CUDA C++ Programming Guide 13.0, Error Checking: cudaErrorNotReady is not an error, and not reported as one
TEST_F(CudaError, IsNotThatSomethingIsNotReady) {
  const Stream stream;
  const Event event;
  Gate gate(stream);
  check(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  gate.open();
}

// CUDA Runtime API, Error Handling: cudaGetErrorName, cudaGetErrorString
TEST_F(CudaError, HasANameAndAText) {
  EXPECT_EQ(std::string(cudaGetErrorName(cudaSuccess)), "cudaSuccess");
  EXPECT_EQ(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)), "cudaErrorMemoryAllocation");
  EXPECT_EQ(std::string(cudaGetErrorName(cudaErrorNotReady)), "cudaErrorNotReady");
  EXPECT_EQ(std::string(cudaGetErrorName(cudaErrorStreamCaptureUnjoined)), "cudaErrorStreamCaptureUnjoined");
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)), "");
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)), cudaGetErrorString(cudaErrorInvalidDevice));
}

// CUDA Runtime API, Error Handling: cudaGetErrorName, cudaGetErrorString of an unknown code
TEST_F(CudaError, IsUnrecognizedWhereThereIsNoSuchCode) {
  const auto none = static_cast<cudaError_t>(998);
  EXPECT_EQ(std::string(cudaGetErrorName(none)), "unrecognized error code");
  EXPECT_EQ(std::string(cudaGetErrorString(none)), "unrecognized error code");
}

// CUDA Runtime API, Data types: cudaErrorInvalidResourceHandle, for invalid handles
TEST_F(CudaError, ComesOfNoEvent) {
  const Stream stream;
  EXPECT_EQ(cudaEventRecord(nullptr, stream), cudaErrorInvalidResourceHandle);
  EXPECT_NE(cudaStreamWaitEvent(stream, nullptr, 0), cudaSuccess);
  EXPECT_NE(cudaEventQuery(nullptr), cudaSuccess);
  EXPECT_NE(cudaEventSynchronize(nullptr), cudaSuccess);
  EXPECT_NE(cudaEventDestroy(nullptr), cudaSuccess);
  EXPECT_NE(cudaStreamDestroy(nullptr), cudaSuccess);
}

// CUDA Runtime API, Stream Management, Event Management and Memory Management: unknown flags are refused
TEST_F(CudaError, ComesOfUnknownFlags) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 0x80), cudaErrorInvalidValue);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, 0x80), cudaErrorInvalidValue);
  void* address = nullptr;
  EXPECT_EQ(cudaHostAlloc(&address, 16, 0x80), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulated_gpu::semantics
