// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaMemory : public Gpu {};

using Byte = unsigned char;

bool is_aligned(const void* address, std::size_t to) { return reinterpret_cast<std::uintptr_t>(address) % to == 0; }

cudaPointerAttributes attributes_of(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address));
  return attributes;
}

// CUDA C++ Programming Guide 13.0, Device Memory Accesses, Size and Alignment Requirement: memory is aligned to at
// least 256 bytes
TEST_F(CudaMemory, IsAlignedFor256Bytes) {
  for (const std::size_t bytes : {1, 3, 255, 257, 5000}) {
    const Array<Byte> memory(bytes);
    EXPECT_TRUE(is_aligned(memory.data(), 256)) << bytes;
    void* of_stream = nullptr;
    ASSERT_EQ(cudaMallocAsync(&of_stream, bytes, cudaStreamLegacy), cudaSuccess);
    EXPECT_TRUE(is_aligned(of_stream, 256)) << bytes;
    ASSERT_EQ(cudaFreeAsync(of_stream, cudaStreamLegacy), cudaSuccess);
  }
}

// CUDA Runtime API, Memory Management: cudaFree and cudaFreeHost of a null pointer do nothing
TEST_F(CudaMemory, OfNoAddressIsFreedToNoEffect) {
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
}

// CUDA Runtime API, Memory Management: a second cudaFree is an error
TEST_F(CudaMemory, IsNotFreedTwice) {
  void* address = nullptr;
  check(cudaMalloc(&address, 1024));
  EXPECT_EQ(cudaFree(address), cudaSuccess);
  EXPECT_NE(cudaFree(address), cudaSuccess);
  cudaGetLastError();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// CUDA Runtime API, Memory Management: cudaFree accepts only addresses that an allocation has returned
TEST_F(CudaMemory, IsNotFreedByAnAddressThatWasNotReturned) {
  const Array<Byte> memory(1024);
  EXPECT_NE(cudaFree(memory.data() + 256), cudaSuccess);
  EXPECT_EQ(memory.values(), std::vector<Byte>(1024));
}

// CUDA Runtime API, Memory Management: cudaMallocManaged of zero bytes fails. That of CUDA 13.0 does not.
TEST_F(CudaMemory, IsNotManagedWithoutSize) {
  void* address = nullptr;
  const cudaError_t code = cudaMallocManaged(&address, 0, cudaMemAttachGlobal);
  EXPECT_TRUE(code == cudaErrorInvalidValue || (code == cudaSuccess && cudaFree(address) == cudaSuccess)) << code;
  cudaGetLastError();
}

// CUDA Runtime API, Memory Management: cudaMemGetInfo
TEST_F(CudaMemory, HasATotalOfWhichSomeIsFree) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_GT(total, 0U);
  EXPECT_LE(free, total);
}

// CUDA Runtime API, Data types, cudaErrorMemoryAllocation: only this call fails
TEST_F(CudaMemory, ThatIsNotThereIsAnErrorOfThatCallOnly) {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, 4 * total), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Array<int> memory(std::vector<int>{1, 2});
  EXPECT_EQ(memory.values(), (std::vector<int>{1, 2}));
}

// CUDA Runtime API, Unified Addressing: cudaPointerGetAttributes
TEST_F(CudaMemory, TellsWhatItIs) {
  const Array<int> device(4);
  EXPECT_EQ(attributes_of(device.data()).type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes_of(device.data() + 3).type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes_of(device.data()).device, 0);
  EXPECT_EQ(attributes_of(device.data()).devicePointer, device.data());

  const Pinned<int> pinned(4);
  EXPECT_EQ(attributes_of(pinned.data()).type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes_of(pinned.data() + 3).type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes_of(pinned.data()).hostPointer, pinned.data());
  EXPECT_EQ(attributes_of(pinned.data()).devicePointer, pinned.data());

  void* managed = nullptr;
  check(cudaMallocManaged(&managed, 16, cudaMemAttachGlobal));
  EXPECT_EQ(attributes_of(managed).type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes_of(managed).hostPointer, managed);
  EXPECT_EQ(attributes_of(managed).devicePointer, managed);
  check(cudaFree(managed));

  const std::vector<int> pageable(4);
  EXPECT_EQ(attributes_of(pageable.data()).type, cudaMemoryTypeUnregistered);
}

// CUDA C++ Programming Guide 13.0, Unified Virtual Address Space: cudaMemcpyDefault takes the direction from addresses
TEST_F(CudaMemory, IsCopiedInTheDirectionThatAddressesTell) {
  const std::vector<int> from = {1, 2, 3};
  const Array<int> first(3);
  const Array<int> second(3);
  std::vector<int> to(3);
  ASSERT_EQ(cudaMemcpy(first.data(), from.data(), first.bytes(), cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(second.data(), first.data(), first.bytes(), cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(to.data(), second.data(), first.bytes(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(to, from);
}

// CUDA Runtime API, Data types, cudaErrorInvalidMemcpyDirection
TEST_F(CudaMemory, IsNotCopiedInADirectionThatThereIsNot) {
  const Array<int> memory(4);
  std::vector<int> host(4);
  const auto none = static_cast<cudaMemcpyKind>(7);
  EXPECT_EQ(cudaMemcpy(host.data(), memory.data(), memory.bytes(), none), cudaErrorInvalidMemcpyDirection);
}

// CUDA Runtime API, Memory Management: cudaMemset sets bytes
TEST_F(CudaMemory, IsFilledWithBytes) {
  const Array<Byte> memory(5);
  ASSERT_EQ(cudaMemset(memory.data() + 1, 0x1a7, 3), cudaSuccess);
  EXPECT_EQ(memory.values(), (std::vector<Byte>{0, 0xa7, 0xa7, 0xa7, 0}));
  EXPECT_EQ(cudaMemset(memory.data(), 1, 0), cudaSuccess);
  EXPECT_EQ(memory.values(), (std::vector<Byte>{0, 0xa7, 0xa7, 0xa7, 0}));
}

// CUDA Runtime API, API synchronization behavior: synchronous copies from device to host have completed on return;
// Stream synchronization behavior, legacy default stream: they come after the work of blocking streams
TEST_F(CudaMemory, IsOnTheHostWhenASynchronousCopyReturns) {
  const Array<Byte> memory(1 << 16);
  const Stream stream;
  const Pinned<Byte> pinned(1 << 16);
  Gate gate(stream);
  check(cudaMemsetAsync(memory.data(), 3, memory.bytes(), stream));
  const std::jthread opener([&gate] { gate.open(); });
  EXPECT_EQ(cudaMemcpy(pinned.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(pinned[0], 3);
  EXPECT_EQ(pinned[(1 << 16) - 1], 3);
  EXPECT_EQ(memory.values(), std::vector<Byte>(1 << 16, 3));
}

// CUDA Runtime API, API synchronization behavior: the host may change memory that a synchronous copy has read
TEST_F(CudaMemory, IsReadWhenASynchronousCopyReturns) {
  const Array<Byte> memory(1 << 16);
  std::vector<Byte> pageable(1 << 16, 1);
  check(cudaMemcpy(memory.data(), pageable.data(), memory.bytes(), cudaMemcpyHostToDevice));
  pageable.assign(1 << 16, 2);
  EXPECT_EQ(memory.values(), std::vector<Byte>(1 << 16, 1));
  const Pinned<Byte> pinned(1 << 16);
  std::memset(pinned.data(), 3, pinned.bytes());
  check(cudaMemcpy(memory.data(), pinned.data(), memory.bytes(), cudaMemcpyHostToDevice));
  std::memset(pinned.data(), 4, pinned.bytes());
  EXPECT_EQ(memory.values(), std::vector<Byte>(1 << 16, 3));
}

// CUDA Runtime API, API synchronization behavior: the host does not wait for copies within the device and fills of its
// memory
TEST_F(CudaMemory, OfTheDeviceIsCopiedAndFilledWithoutTheHostWaiting) {
  const Array<Byte> from(std::vector<Byte>(100, 1));
  const Array<Byte> to(100);
  const Stream stream;
  Gate gate(stream);
  EXPECT_EQ(cudaMemset(from.data(), 2, 50), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(to.data(), from.data(), 100, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_TRUE(stays_busy(cudaStreamLegacy));
  gate.open();
  std::vector<Byte> expected(100, 1);
  std::fill_n(expected.begin(), 50, Byte{2});
  EXPECT_EQ(to.values(), expected);
}

// CUDA Runtime API, API synchronization behavior: copies from host to host are always synchronous
TEST_F(CudaMemory, OfTheHostIsCopiedOnReturn) {
  const Stream stream;
  const std::vector<int> pageable = {1, 2, 3};
  std::vector<int> to(3);
  ASSERT_EQ(cudaMemcpyAsync(to.data(), pageable.data(), 12, cudaMemcpyHostToHost, stream), cudaSuccess);
  EXPECT_EQ(to, pageable);
  const Pinned<int> pinned(3);
  const Pinned<int> other(3);
  ASSERT_EQ(cudaMemcpyAsync(pinned.data(), pageable.data(), 12, cudaMemcpyHostToHost, stream), cudaSuccess);
  EXPECT_EQ(pinned[2], 3);
  ASSERT_EQ(cudaMemcpyAsync(other.data(), pinned.data(), 12, cudaMemcpyHostToHost, stream), cudaSuccess);
  EXPECT_EQ(other[2], 3);
  stream.synchronize();
}

// CUDA Runtime API, API synchronization behavior: asynchronous copies to pinned memory return before they are done
TEST_F(CudaMemory, IsCopiedToPinnedMemoryWithoutTheHostWaiting) {
  const Array<int> memory(std::vector<int>{1, 2, 3});
  const Pinned<int> pinned(3);
  const Stream stream;
  Gate gate(stream);
  ASSERT_EQ(cudaMemcpyAsync(pinned.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_TRUE(stays_busy(stream));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(pinned[0], 1);
  EXPECT_EQ(pinned[2], 3);
}

// CUDA Runtime API, Memory Management: cudaMemcpy2D copies rows of `width` bytes that are `pitch` bytes apart
TEST_F(CudaMemory, IsCopiedByRows) {
  const std::vector<Byte> from = {1, 2, 3, 0, 0, 4, 5, 6, 0, 0};
  const Array<Byte> rows(8);
  ASSERT_EQ(cudaMemcpy2D(rows.data(), 4, from.data(), 5, 3, 2, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(rows.values(), (std::vector<Byte>{1, 2, 3, 0, 4, 5, 6, 0}));
  const Stream stream;
  const Pinned<Byte> to(6);
  ASSERT_EQ(cudaMemcpy2DAsync(to.data(), 3, rows.data(), 4, 3, 2, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(std::vector<Byte>(to.data(), to.data() + 6), (std::vector<Byte>{1, 2, 3, 4, 5, 6}));
}

// CUDA Runtime API, Memory Management: cudaMemcpy2D refuses rows wider than their pitch
TEST_F(CudaMemory, IsNotCopiedByRowsThatOverlap) {
  const Array<Byte> rows(8);
  std::vector<Byte> to(8);
  EXPECT_NE(cudaMemcpy2D(to.data(), 3, rows.data(), 3, 4, 2, cudaMemcpyDeviceToHost), cudaSuccess);
}

// CUDA C++ Programming Guide 13.0, Stream Ordered Memory Allocator: memory exists from the allocation to the free, in
// the order of the stream
TEST_F(CudaMemory, IsAllocatedAndFreedInTheOrderOfAStream) {
  const Pinned<Byte> to(64);
  const Stream stream;
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 64, stream), cudaSuccess);
  check(cudaMemsetAsync(memory, 7, 64, stream));
  check(cudaMemcpyAsync(to.data(), memory, 64, cudaMemcpyDeviceToHost, stream));
  ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(to[0], 7);
  EXPECT_EQ(to[63], 7);
}

// CUDA C++ Programming Guide 13.0, Stream Ordered Memory Allocator: other streams use the memory after an event
TEST_F(CudaMemory, OfAStreamIsUsedByAnotherBehindAnEvent) {
  const Stream first;
  const Stream second;
  const Event allocated;
  const Event used;
  const Pinned<Byte> to(64);
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 64, first));
  check(cudaEventRecord(allocated, first));
  check(cudaStreamWaitEvent(second, allocated, 0));
  check(cudaMemsetAsync(memory, 9, 64, second));
  check(cudaMemcpyAsync(to.data(), memory, 64, cudaMemcpyDeviceToHost, second));
  check(cudaEventRecord(used, second));
  check(cudaStreamWaitEvent(first, used, 0));
  EXPECT_EQ(cudaFreeAsync(memory, first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_EQ(to[63], 9);
}

// CUDA Runtime API, Memory Management: cudaFree accepts memory of cudaMallocAsync once all accesses are done
TEST_F(CudaMemory, OfAStreamIsFreedWithoutOne) {
  const Stream stream;
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 64, stream));
  stream.synchronize();
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

// CUDA Runtime API, Memory Management: cudaHostRegister, cudaHostUnregister and their errors
TEST_F(CudaMemory, IsPinnedOnceByRegistration) {
  constexpr std::size_t page = std::size_t{1} << 16;
  void* memory = std::aligned_alloc(page, page);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(cudaHostRegister(memory, page, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(attributes_of(memory).type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostRegister(memory, page, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(memory), cudaSuccess);
  EXPECT_EQ(attributes_of(memory).type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaHostUnregister(memory), cudaErrorHostMemoryNotRegistered);
  std::free(memory);
}

// CUDA C++ Programming Guide 13.0, Unified Memory: the host reads what the GPU has written once it has synchronized
TEST_F(CudaMemory, ThatIsManagedIsTheHostsAfterSynchronization) {
  const Stream stream;
  const Array<Byte> copy(256);
  void* memory = nullptr;
  check(cudaMallocManaged(&memory, 256, cudaMemAttachGlobal));
  auto* bytes = static_cast<Byte*>(memory);
  bytes[0] = 5;
  bytes[255] = 6;
  check(cudaMemcpyAsync(copy.data(), bytes, 256, cudaMemcpyDefault, stream));
  check(cudaMemsetAsync(bytes, 7, 255, stream));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(bytes[0], 7);
  EXPECT_EQ(bytes[255], 6);
  EXPECT_EQ(copy.values()[0], 5);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace emulated_gpu::semantics
