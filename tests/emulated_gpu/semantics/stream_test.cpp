// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaStream : public Gpu {};

/// Whether the work of `later` waits for that of `earlier`.
enum class Order { waits, does_not };
void expect_order(cudaStream_t earlier, cudaStream_t later, Order order) {
  const Array<int> memory(16);
  Gate gate(earlier);
  check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), later));
  if (order == Order::waits) {
    EXPECT_TRUE(stays_busy(later));
  } else {
    EXPECT_TRUE(becomes_ready(later));
    EXPECT_EQ(cudaStreamSynchronize(later), cudaSuccess);
  }
  EXPECT_TRUE(stays_busy(earlier));
  gate.open();
  EXPECT_TRUE(becomes_ready(later));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// CUDA C++ Programming Guide 13.0, Streams: a stream's commands are executed in order
TEST_F(CudaStream, IsInOrder) {
  const Stream stream(cudaStreamNonBlocking);
  const Array<int> memory(1000);
  constexpr std::size_t rounds = 20;
  const Pinned<int> seen(1000 * rounds);
  for (std::size_t i = 0; i < rounds; ++i) {
    check(cudaMemsetAsync(memory.data(), static_cast<int>(i), memory.bytes(), stream));
    check(cudaMemcpyAsync(seen.data() + 1000 * i, memory.data(), memory.bytes(), cudaMemcpyDeviceToHost, stream));
  }
  stream.synchronize();
  for (std::size_t i = 0; i < 1000 * rounds; ++i) ASSERT_EQ(seen[i], 0x01010101 * static_cast<int>(i / 1000)) << i;
}

// CUDA C++ Programming Guide 13.0, Streams: streams are not ordered with each other
TEST_F(CudaStream, DoesNotWaitForOthers) {
  const Stream first;
  const Stream second;
  expect_order(first, second, Order::does_not);
}

// CUDA Runtime API, Stream Management: cudaStreamQuery
TEST_F(CudaStream, TellsWhetherItIsDone) {
  const Stream stream;
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  Gate gate(stream);
  EXPECT_TRUE(stays_busy(stream));
  gate.open();
  EXPECT_TRUE(becomes_ready(stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

// CUDA Runtime API, Stream synchronization behavior: the legacy stream waits for blocking streams
TEST_F(CudaStream, ThatIsLegacyWaitsForBlockingOnes) {
  const Stream stream;
  expect_order(stream, cudaStreamLegacy, Order::waits);
  expect_order(stream, nullptr, Order::waits);
}

// CUDA Runtime API, Stream synchronization behavior: blocking streams wait for the legacy stream
TEST_F(CudaStream, ThatBlocksWaitsForTheLegacyOne) {
  const Stream stream;
  expect_order(cudaStreamLegacy, stream, Order::waits);
  expect_order(nullptr, stream, Order::waits);
}

// CUDA Runtime API, Stream synchronization behavior: non-blocking streams and the legacy stream do not wait for each
// other
TEST_F(CudaStream, ThatDoesNotBlockAndTheLegacyOneDoNotWait) {
  const Stream stream(cudaStreamNonBlocking);
  expect_order(stream, cudaStreamLegacy, Order::does_not);
  expect_order(cudaStreamLegacy, stream, Order::does_not);
}

// CUDA Runtime API, Stream synchronization behavior: the example of a kernel in the legacy stream between two in other
// streams
TEST_F(CudaStream, OrdersOthersByTheLegacyOneBetween) {
  const Stream first;
  const Stream second;
  const Array<int> memory(16);
  Gate gate(first);
  check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), cudaStreamLegacy));
  check(cudaMemsetAsync(memory.data(), 2, memory.bytes(), second));
  EXPECT_TRUE(stays_busy(second));
  gate.open();
  second.synchronize();
  EXPECT_EQ(memory.values(), std::vector<int>(16, 0x02020202));
}

// CUDA Runtime API, Stream synchronization behavior: the per-thread stream is a blocking stream
TEST_F(CudaStream, OfAThreadAndTheLegacyOneWaitForEachOther) {
  expect_order(cudaStreamPerThread, cudaStreamLegacy, Order::waits);
  expect_order(cudaStreamLegacy, cudaStreamPerThread, Order::waits);
}

// CUDA Runtime API, Stream synchronization behavior: each thread has its own per-thread stream
TEST_F(CudaStream, OfAThreadIsNotThatOfAnother) {
  const Array<int> memory(16);
  Gate gate(cudaStreamPerThread);
  bool was_ready = false;
  on_another_thread([&] {
    check(cudaSetDevice(0));
    check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), cudaStreamPerThread));
    was_ready = becomes_ready(cudaStreamPerThread);
  });
  EXPECT_TRUE(was_ready);
  EXPECT_TRUE(stays_busy(cudaStreamPerThread));
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
}

// CUDA Runtime API, Stream Management: cudaDeviceGetStreamPriorityRange, cudaStreamCreateWithPriority
TEST_F(CudaStream, HasAPriorityWithinTheRange) {
  int least = 1;
  int greatest = 1;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LE(greatest, least);
  for (const int wanted : {greatest, least, greatest - 10, least + 10}) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, wanted), cudaSuccess);
    int priority = 1;
    EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
    EXPECT_EQ(priority, std::min(std::max(wanted, greatest), least));
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

// CUDA Runtime API, Stream Management: cudaStreamGetFlags
TEST_F(CudaStream, TellsItsFlags) {
  for (const unsigned wanted : {cudaStreamDefault, cudaStreamNonBlocking}) {
    const Stream stream(wanted);
    unsigned flags = 77;
    EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
    EXPECT_EQ(flags, wanted);
  }
}

// CUDA Runtime API, Stream Management: cudaStreamDestroy returns at once, and the work is still done
TEST_F(CudaStream, DoesItsWorkAfterItIsDestroyed) {
  const Array<int> memory(16);
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    Stream stream(flags);
    const Event end;
    Gate gate(stream);
    check(cudaMemsetAsync(memory.data(), static_cast<int>(flags) + 1, memory.bytes(), stream));
    check(cudaEventRecord(end, stream));
    stream.destroy();
    EXPECT_TRUE(stays_incomplete(end));
    gate.open();
    EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
    EXPECT_EQ(memory.values(), std::vector<int>(16, 0x01010101 * (static_cast<int>(flags) + 1)));
  }
}

// CUDA Runtime API, Device Management: cudaDeviceSynchronize waits for all streams, including destroyed ones
TEST_F(CudaStream, IsWaitedForWithTheDevice) {
  const Array<int> memory(16);
  const Array<int> other_memory(16);
  Stream stream(cudaStreamNonBlocking);
  const Stream other(cudaStreamNonBlocking);
  const Pinned<int> seen(2);
  {
    Gate gate(stream);
    check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), stream));
    check(cudaMemcpyAsync(&seen[0], memory.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    stream.destroy();
    check(cudaMemsetAsync(other_memory.data(), 2, other_memory.bytes(), other));
    check(cudaMemcpyAsync(&seen[1], other_memory.data(), sizeof(int), cudaMemcpyDeviceToHost, other));
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(seen[0], 0x01010101);
  EXPECT_EQ(seen[1], 0x02020202);
}

struct HostCall {
  std::atomic<int>* calls;
  int* seen;  ///< the value that the stream has copied before
  int value = -1;
  int place = -1;
};

void CUDART_CB note_call(void* data) {
  auto* call = static_cast<HostCall*>(data);
  call->value = *call->seen;
  call->place = (*call->calls)++;
}

// CUDA Runtime API, Execution Control: the function of cudaLaunchHostFunc is called after all earlier work, whose
// effects the host sees as after synchronizing an event
TEST_F(CudaStream, CallsHostFunctionsInOrder) {
  const Stream stream;
  const Array<int> memory(1);
  const Pinned<int> seen(3);
  std::atomic<int> calls = 0;
  std::vector<HostCall> all;
  for (std::size_t i = 0; i < 3; ++i) all.push_back({&calls, &seen[i]});
  for (std::size_t i = 0; i < 3; ++i) {
    check(cudaMemsetAsync(memory.data(), static_cast<int>(i) + 1, memory.bytes(), stream));
    check(cudaMemcpyAsync(&seen[i], memory.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    ASSERT_EQ(cudaLaunchHostFunc(stream, note_call, &all[i]), cudaSuccess);
  }
  stream.synchronize();
  EXPECT_EQ(calls, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].place, static_cast<int>(i));
    EXPECT_EQ(all[i].value, 0x01010101 * (static_cast<int>(i) + 1));
  }
}

// CUDA Runtime API, Execution Control: work that is queued after cudaLaunchHostFunc waits for the function
TEST_F(CudaStream, WaitsForHostFunctions) {
  const Stream stream;
  const Pinned<int> from(1);
  const Array<int> memory(1);
  from[0] = 1;
  check(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<int*>(data) = 2; }, from.data()));
  check(cudaMemcpyAsync(memory.data(), from.data(), sizeof(int), cudaMemcpyHostToDevice, stream));
  stream.synchronize();
  EXPECT_EQ(memory.values(), std::vector<int>{2});
}

// CUDA Runtime API, Execution Control: cudaLaunchHostFunc of a null function fails
TEST_F(CudaStream, CallsNoFunctionThatThereIsNot) {
  const Stream stream;
  EXPECT_EQ(cudaLaunchHostFunc(stream, nullptr, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulated_gpu::semantics
