// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaEvent : public Gpu {};
class CudaEvents : public TwoGpus {};

// CUDA Runtime API, Event Management: cudaEventRecord; before the first one, an event is complete
TEST_F(CudaEvent, IsCompleteBeforeItIsRecorded) {
  const Event event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  const Stream stream;
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  EXPECT_TRUE(becomes_ready(stream));
}

// CUDA Runtime API, Event Management: cudaEventRecord captures the current work of the stream, but no later work
TEST_F(CudaEvent, StandsForWhatTheStreamHadThen) {
  const Stream stream;
  const Event before;
  const Event after;
  check(cudaEventRecord(before, stream));
  Gate gate(stream);
  check(cudaEventRecord(after, stream));
  EXPECT_TRUE(becomes_complete(before));
  EXPECT_EQ(cudaEventSynchronize(before), cudaSuccess);
  EXPECT_TRUE(stays_incomplete(after));
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(after), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(after), cudaSuccess);
}

// CUDA Runtime API, Event Management: cudaEventRecord overwrites what it captured before
TEST_F(CudaEvent, StandsForWhatWasRecordedLast) {
  const Stream held;
  const Stream stream;
  const Event event;
  Gate gate(held);
  check(cudaEventRecord(event, held));
  EXPECT_TRUE(stays_incomplete(event));
  check(cudaEventRecord(event, stream));
  EXPECT_TRUE(becomes_complete(event));
  check(cudaEventRecord(event, held));
  EXPECT_TRUE(stays_incomplete(event));
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

// CUDA Runtime API, Stream Management: cudaStreamWaitEvent delays work that is queued later, but no earlier work
TEST_F(CudaEvent, HoldsBackWhatIsQueuedBehindTheWait) {
  const Array<int> memory(1);
  const Pinned<int> seen(1);
  const Stream first;
  const Stream second;
  const Event event;
  const Event earlier;
  Gate gate(first);
  check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), first));
  check(cudaEventRecord(event, first));
  check(cudaEventRecord(earlier, second));
  check(cudaStreamWaitEvent(second, event, 0));
  check(cudaMemcpyAsync(seen.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost, second));
  EXPECT_TRUE(becomes_complete(earlier));
  EXPECT_TRUE(stays_busy(second));
  gate.open();
  second.synchronize();
  EXPECT_EQ(seen[0], 0x01010101);
}

// CUDA Runtime API, Event Management: a wait refers to the work that was captured at the time of the call; a later
// cudaEventRecord does not change it to less
TEST_F(CudaEvent, IsWaitedForAsItWasAtTheTimeOfTheCall) {
  const Stream held;
  const Stream waiting;
  const Stream idle;
  const Event event;
  Gate gate(held);
  check(cudaEventRecord(event, held));
  check(cudaStreamWaitEvent(waiting, event, 0));
  check(cudaEventRecord(event, idle));
  EXPECT_TRUE(becomes_complete(event));
  EXPECT_TRUE(stays_busy(waiting));
  gate.open();
  EXPECT_TRUE(becomes_ready(waiting));
}

// A later cudaEventRecord does not change the wait to more, either.
TEST_F(CudaEvent, IsNotWaitedForAsItIsRecordedLater) {
  const Stream held;
  const Stream waiting;
  const Event event;
  check(cudaEventRecord(event, held));
  check(cudaStreamWaitEvent(waiting, event, 0));
  Gate gate(held);
  check(cudaEventRecord(event, held));
  EXPECT_TRUE(stays_incomplete(event));
  EXPECT_TRUE(becomes_ready(waiting));
  gate.open();
}

// CUDA Runtime API, Event Management: cudaEventDestroy does not wait, and pending waits for the event continue
TEST_F(CudaEvent, IsWaitedForAfterItIsDestroyed) {
  const Stream held;
  const Stream waiting;
  Event event;
  Gate gate(held);
  check(cudaEventRecord(event, held));
  check(cudaStreamWaitEvent(waiting, event, 0));
  event.destroy();
  EXPECT_TRUE(stays_busy(waiting));
  gate.open();
  EXPECT_TRUE(becomes_ready(waiting));
}

// CUDA C++ Programming Guide 13.0, Streams, Events: order between streams is transitive
TEST_F(CudaEvent, OrdersStreamsThroughOthers) {
  const Array<int> memory(1 << 12);
  const std::vector<int> ones(1 << 12, 0x01010101);
  const Stream first(cudaStreamNonBlocking);
  const Stream second(cudaStreamNonBlocking);
  const Stream third(cudaStreamNonBlocking);
  const Event event;
  const Pinned<int> seen(1 << 12);
  Gate gate(first);
  check(cudaMemsetAsync(memory.data(), 1, memory.bytes(), first));
  check(cudaEventRecord(event, first));
  check(cudaStreamWaitEvent(second, event, 0));
  check(cudaEventRecord(event, second));
  check(cudaStreamWaitEvent(third, event, 0));
  check(cudaMemcpyAsync(seen.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost, third));
  EXPECT_TRUE(stays_busy(third));
  gate.open();
  third.synchronize();
  EXPECT_EQ(std::vector<int>(seen.data(), seen.data() + (1 << 12)), ones);
}

// CUDA Runtime API, Stream synchronization behavior: an event in the legacy stream comes after the work of blocking
// streams
TEST_F(CudaEvent, OfTheLegacyStreamStandsForBlockingOnesToo) {
  const Stream stream;
  const Event event;
  Gate gate(stream);
  check(cudaEventRecord(event, cudaStreamLegacy));
  EXPECT_TRUE(stays_incomplete(event));
  gate.open();
  EXPECT_TRUE(becomes_complete(event));
}

// CUDA Runtime API, Event Management: cudaEventElapsedTime
TEST_F(CudaEvent, TellsTheTimeBetweenTwo) {
  const Stream stream;
  const Event begin;
  const Event end;
  const Array<int> memory(16);
  check(cudaEventRecord(begin, stream));
  check(cudaMemsetAsync(memory.data(), 0, memory.bytes(), stream));
  check(cudaEventRecord(end, stream));
  check(cudaEventSynchronize(end));
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
}

// CUDA Runtime API, Event Management: cudaEventElapsedTime fails if one of the events is not complete
TEST_F(CudaEvent, TellsNoTimeBeforeItIsComplete) {
  const Stream stream;
  const Event begin;
  const Event end;
  check(cudaEventRecord(begin, stream));
  Gate gate(stream);
  check(cudaEventRecord(end, stream));
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  gate.open();
  check(cudaEventSynchronize(end));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
}

// CUDA Runtime API, Event Management: cudaEventElapsedTime fails for an event without timing, or one never recorded
TEST_F(CudaEvent, TellsNoTimeThatItDoesNotHave) {
  const Event timed;
  const Event untimed(cudaEventDisableTiming);
  const Event unrecorded;
  check(cudaEventRecord(timed, nullptr));
  check(cudaEventRecord(untimed, nullptr));
  check(cudaDeviceSynchronize());
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, untimed, timed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, unrecorded), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, unrecorded, timed), cudaErrorInvalidResourceHandle);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior: waits, queries and synchronization
// work across devices
TEST_F(CudaEvents, OrderStreamsOfDifferentDevices) {
  const Array<int> here(std::vector<int>(1 << 12, 1));
  const Stream first;
  const Event event;
  check(cudaSetDevice(1));
  const Array<int> there(1 << 12);
  const Stream second;
  check(cudaSetDevice(0));
  Gate gate(first);
  check(cudaMemsetAsync(here.data(), 2, here.bytes(), first));
  check(cudaEventRecord(event, first));
  check(cudaSetDevice(1));
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  check(cudaMemcpyAsync(there.data(), here.data(), here.bytes(), cudaMemcpyDefault, second));
  EXPECT_TRUE(stays_busy(second));
  EXPECT_TRUE(stays_incomplete(event));
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  second.synchronize();
  EXPECT_EQ(there.values(), std::vector<int>(1 << 12, 0x02020202));
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior: events are not recorded across
// devices
TEST_F(CudaEvents, AreRecordedInStreamsOfTheirDevice) {
  const Stream stream;
  check(cudaSetDevice(1));
  const Event event;
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior: there is no elapsed time across
// devices
TEST_F(CudaEvents, TellNoTimeBetweenDevices) {
  const Event here;
  check(cudaEventRecord(here, nullptr));
  check(cudaDeviceSynchronize());
  check(cudaSetDevice(1));
  const Event there;
  check(cudaEventRecord(there, nullptr));
  check(cudaDeviceSynchronize());
  float milliseconds = 0;
  EXPECT_NE(cudaEventElapsedTime(&milliseconds, here, there), cudaSuccess);
}

}  // namespace
}  // namespace emulated_gpu::semantics
