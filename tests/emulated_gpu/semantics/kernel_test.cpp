// SPDX-License-Identifier: Apache-2.0
// Tests what kernels do, and which launches are refused. conversion_test.cpp tests conversions.
#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "emulated_gpu/semantics/graph.hpp"
#include "emulated_gpu/semantics/kernels.hpp"
#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {
namespace {

class CudaKernel : public Gpu {};
class CudaKernels : public TwoGpus {};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Returns the function's values for 0 … count − 1.
template <typename T, typename Function>
std::vector<T> made_by(int count, const Function& function) {
  std::vector<T> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<T>(function(i)));
  return all;
}

// CUDA C++ Programming Guide 13.0, Kernels: the example of a vector's addition
TEST_F(CudaKernel, Adds) {
  const Array<int> a(numbers(1000));
  const Array<int> b(std::vector<int>(1000, 5));
  const Array<int> sum(1000);
  const Stream stream;
  ASSERT_EQ(launch_add(a.data(), b.data(), sum.data(), 1000, stream), cudaSuccess);
  EXPECT_EQ(sum.values(), made_by<int>(1000, [](int i) { return i + 5; }));
}

// CUDA Runtime API, Occupancy: cudaOccupancyMaxActiveBlocksPerMultiprocessor
TEST_F(CudaKernel, HasTheBlocksForWhichAMultiprocessorHasThreads) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0));
  int before = properties.maxBlocksPerMultiProcessor;
  for (const int threads : {32, 33, 256, 1024}) {
    int blocks = 0;
    ASSERT_EQ(find_resident_blocks(&blocks, threads), cudaSuccess);
    EXPECT_GE(blocks, 1);
    EXPECT_LE(blocks, before);
    EXPECT_LE(blocks * threads, properties.maxThreadsPerMultiProcessor);
    before = blocks;
  }
}

// CUDA C++ Programming Guide 13.0, Asynchronous Concurrent Execution: launches are asynchronous, and in the order of
// their stream
TEST_F(CudaKernel, IsLaunchedIntoAStream) {
  const Array<int> memory(16);
  const Array<int> seen(16);
  const Stream stream(cudaStreamNonBlocking);
  Gate gate(stream);
  ASSERT_EQ(launch_fill(memory.data(), 1, 16, stream), cudaSuccess);
  ASSERT_EQ(launch_add(memory.data(), memory.data(), seen.data(), 16, stream), cudaSuccess);
  ASSERT_EQ(launch_fill(memory.data(), 3, 16, stream), cudaSuccess);
  EXPECT_TRUE(stays_busy(stream));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(seen.values(), std::vector<int>(16, 2));
  EXPECT_EQ(memory.values(), std::vector<int>(16, 3));
}

// CUDA C++ Programming Guide 13.0, Thread Hierarchy: indices in up to three dimensions
TEST_F(CudaKernel, HasThreadsInThreeDimensions) {
  const dim3 grid(2, 3, 2);
  const dim3 block(4, 3, 5);
  const Array<int> places(12 * 60);
  const Stream stream;
  ASSERT_EQ(launch_places(places.data(), grid, block, stream), cudaSuccess);
  EXPECT_EQ(places.values(), numbers(12 * 60));
}

// CUDA C++ Programming Guide 13.0, Synchronization Functions: __syncthreads makes shared memory visible to the block
TEST_F(CudaKernel, AddsInSharedMemory) {
  const Array<int> from(numbers(3 * block_of_sums));
  const Array<int> sums(3);
  const Stream stream;
  ASSERT_EQ(launch_block_sums(from.data(), sums.data(), 3, stream), cudaSuccess);
  EXPECT_EQ(sums.values(), (std::vector<int>{8128, 24512, 40896}));
}

// CUDA C++ Programming Guide 13.0, Warp Shuffle Functions: the example of a reduction across a warp
TEST_F(CudaKernel, AddsByShuffles) {
  const Array<int> from(numbers(3 * block_of_sums));
  const Array<int> sums(3);
  const Stream stream;
  ASSERT_EQ(launch_block_sums_of_warps(from.data(), sums.data(), 3, stream), cudaSuccess);
  EXPECT_EQ(sums.values(), (std::vector<int>{8128, 24512, 40896}));
}

// CUDA C++ Programming Guide 13.0, Memory Fence Functions: the example of a sum by the last block
TEST_F(CudaKernel, AddsInTheBlockThatIsLast) {
  const Array<int> from(numbers(5 * block_of_sums));
  const Array<int> sums(5);
  const Array<unsigned> finished(1);
  const Array<int> sum(1);
  const Stream stream;
  ASSERT_EQ(launch_sum_by_last_block(from.data(), sums.data(), finished.data(), sum.data(), 5, stream), cudaSuccess);
  EXPECT_EQ(sum.values(), std::vector<int>{640 * 639 / 2});
}

// CUDA C++ Programming Guide 13.0, __shared__: an extern array has the size that the launch specifies
TEST_F(CudaKernel, HasDynamicSharedMemory) {
  for (const int count : {1, 33, 1000}) {
    const Array<int> values(numbers(count));
    const Stream stream;
    ASSERT_EQ(launch_reverse(values.data(), count, stream), cudaSuccess);
    EXPECT_EQ(values.values(), made_by<int>(count, [count](int i) { return count - 1 - i; }));
  }
}

// CUDA C++ Programming Guide 13.0, Warp Shuffle Functions
TEST_F(CudaKernel, Shuffles) {
  std::vector<std::unique_ptr<Array<int>>> arrays;
  const auto array = [&arrays] {
    arrays.push_back(std::make_unique<Array<int>>(warp));
    return arrays.back()->data();
  };
  const Shuffled to{array(), array(), array(), array(), array(), array()};
  const Stream stream;
  ASSERT_EQ(launch_shuffles(to, stream), cudaSuccess);
  const auto expect = [&arrays](std::size_t which, const auto& lane_of) {
    EXPECT_EQ(arrays[which]->values(), made_by<int>(warp, [&](int lane) { return 100 + lane_of(lane); })) << which;
  };
  expect(0, [](int) { return 3; });
  expect(1, [](int lane) { return lane == 0 ? 0 : lane - 1; });
  expect(2, [](int lane) { return lane + 2 < warp ? lane + 2 : lane; });
  expect(3, [](int lane) { return lane ^ 5; });
  expect(4, [](int lane) { return lane < 16 ? 1 : 17; });
  expect(5, [](int lane) { return lane % 8 == 0 ? lane : lane - 1; });
}

// CUDA C++ Programming Guide 13.0, Warp Vote Functions, Warp Match Functions, Warp Reduce Functions; and
// Synchronization Functions: __syncthreads_count, __syncthreads_and, __syncthreads_or
TEST_F(CudaKernel, Votes) {
  const Array<unsigned> ballot(warp);
  const Array<unsigned> ballot_half(warp);
  const Array<int> any(warp);
  const Array<int> all(warp);
  const Array<int> all_but_one(warp);
  const Array<unsigned> match(warp);
  const Array<unsigned> sum(warp);
  const Array<int> count(block_of_votes);
  const Array<int> either(block_of_votes);
  const Array<int> both(block_of_votes);
  const Stream stream;
  const semantics::Votes to{ballot.data(), ballot_half.data(), any.data(),   all.data(),    all_but_one.data(),
                            match.data(),  sum.data(),         count.data(), either.data(), both.data()};
  ASSERT_EQ(launch_votes(to, stream), cudaSuccess);
  EXPECT_EQ(ballot.values(), std::vector<unsigned>(warp, 0x49249249U));
  EXPECT_EQ(ballot_half.values(), made_by<unsigned>(warp, [](int i) { return i < 16 ? 0x9249U : 0x49240000U; }));
  const auto is_true = [](int value) { return value != 0; };
  for (const Array<int>* each : {&any, &all, &either}) {
    const std::vector<int> values = each->values();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), is_true));
  }
  for (const Array<int>* each : {&all_but_one, &both}) {
    const std::vector<int> values = each->values();
    EXPECT_TRUE(std::none_of(values.begin(), values.end(), is_true));
  }
  EXPECT_EQ(match.values(), made_by<unsigned>(warp, [](int i) { return 0xfU << (i / 4 * 4); }));
  EXPECT_EQ(sum.values(), std::vector<unsigned>(warp, 496));
  EXPECT_EQ(count.values(), std::vector<int>(block_of_votes, 20));
}

// CUDA C++ Programming Guide 13.0, Atomic Functions: each one reads, changes and writes without interruption
TEST_F(CudaKernel, ChangesMemoryAtomically) {
  constexpr int blocks = 3;
  constexpr int threads = 100;
  constexpr int all = blocks * threads;
  const Array<int> add(1);
  const Array<int> before(all);
  const Array<int> sub(1);
  const Array<int> min(std::vector<int>{17});
  const Array<int> max(std::vector<int>{17});
  const Array<unsigned> inc(1);
  const Array<unsigned> or_bits(1);
  const Array<unsigned> xor_bits(1);
  const Array<int> cas(1);
  const Array<float> add_float(1);
  const Array<unsigned long long> add_long(1);
  const Atomics to{add.data(),     before.data(),   sub.data(), min.data(),       max.data(),     inc.data(),
                   or_bits.data(), xor_bits.data(), cas.data(), add_float.data(), add_long.data()};
  const Stream stream;
  ASSERT_EQ(launch_atomics(to, blocks, threads, stream), cudaSuccess);
  EXPECT_EQ(add.values()[0], all);
  std::vector<int> each = before.values();
  std::sort(each.begin(), each.end());
  EXPECT_EQ(each, numbers(all));
  EXPECT_EQ(sub.values()[0], -2 * all);
  EXPECT_EQ(min.values()[0], 0);
  EXPECT_EQ(max.values()[0], all - 1);
  EXPECT_EQ(inc.values()[0], static_cast<unsigned>(all % 10));
  EXPECT_EQ(or_bits.values()[0], 0xffffffffU);
  unsigned expected = 0;
  for (unsigned i = 0; i < all; ++i) expected ^= i;
  EXPECT_EQ(xor_bits.values()[0], expected);
  EXPECT_EQ(cas.values()[0], all);
  EXPECT_EQ(add_float.values()[0], all / 2);
  EXPECT_EQ(add_long.values()[0], static_cast<unsigned long long>(all) << 40);
}

// CUDA C++ Programming Guide 13.0, Atomic Functions: they also work in shared memory
TEST_F(CudaKernel, ChangesSharedMemoryAtomically) {
  const Array<int> values(numbers(1000));
  const Array<int> counts(bins);
  const Stream stream;
  ASSERT_EQ(launch_histogram(values.data(), counts.data(), 1000, stream), cudaSuccess);
  EXPECT_EQ(counts.values(), made_by<int>(bins, [](int bin) { return bin < 1000 % bins ? 63 : 62; }));
}

// CUDA C++ Programming Guide 13.0, Device Memory Accesses, Size and Alignment Requirement; Built-in Vector Types
TEST_F(CudaKernel, ReadsAndWritesVectors) {
  std::vector<float4> from;
  for (int i = 0; i < 100; ++i) {
    const auto x = static_cast<float>(i);
    from.push_back({x, x + 0.25F, x + 0.5F, x + 0.75F});
  }
  const Array<float4> in(from);
  const Array<float4> out(100);
  const Stream stream;
  ASSERT_EQ(launch_double_vectors(in.data(), out.data(), 100, stream), cudaSuccess);
  const std::vector<float4> to = out.values();
  for (std::size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(to[i].x, 2 * from[i].x);
    EXPECT_EQ(to[i].y, 2 * from[i].y);
    EXPECT_EQ(to[i].z, 2 * from[i].z);
    EXPECT_EQ(to[i].w, 2 * from[i].w);
  }
}

// CUDA Runtime API, Data types, cudaErrorInvalidConfiguration, in whose place CUDA 13.0 gives cudaErrorInvalidValue;
// CUDA C++ Programming Guide 13.0, Error Checking: a launch that is refused does nothing, but later ones work
TEST_F(CudaKernel, IsNotLaunchedWithWhatTheDeviceDoesNotHave) {
  const Array<int> count(1);
  const Stream stream;
  const auto expect_refused = [](cudaError_t code) {
    EXPECT_TRUE(code == cudaErrorInvalidConfiguration || code == cudaErrorInvalidValue) << code;
  };
  expect_refused(launch_count(count.data(), 1, 1025, 0, stream));
  expect_refused(launch_count(count.data(), 1, dim3(1, 1, 65), 0, stream));
  expect_refused(launch_count(count.data(), dim3(1, 65536, 1), 1, 0, stream));
  expect_refused(launch_count(count.data(), 0, 1, 0, stream));
  expect_refused(launch_count(count.data(), 1, 0, 0, stream));
  EXPECT_NE(launch_count(count.data(), 1, 1, std::size_t{1} << 24, stream), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(count.values()[0], 0);
  EXPECT_EQ(launch_count(count.data(), dim3(2, 2, 2), dim3(8, 8, 2), 48 << 10, stream), cudaSuccess);
  EXPECT_EQ(count.values()[0], 1024);
}

// CUDA C++ Programming Guide 13.0, __shared__ and Shared Memory: a kernel must request more than 48 KB first
TEST_F(CudaKernel, HasNoMoreThan48KbUnlessItAsks) {
  const Array<int> count(1);
  const Stream stream;
  EXPECT_NE(launch_count(count.data(), 1, 1, (48 << 10) + 4, stream), cudaSuccess);
  EXPECT_EQ(count.values()[0], 0);
}

// CUDA Runtime API, Graph Management: cudaGraphExecUpdate of a kernel's arguments and extent
TEST_F(CudaKernel, IsCapturedAndUpdated) {
  const Array<int> first(300);
  const Array<int> second(300);
  const Stream stream;
  const Graph graph(stream, [&] { check(launch_fill(first.data(), 1, 300, stream)); });
  const Graph update(stream, [&] { check(launch_fill(second.data(), 2, 100, stream)); });
  EXPECT_EQ(graph.nodes_by_type(), (std::map<cudaGraphNodeType, int>{{cudaGraphNodeTypeKernel, 1}}));
  const Executable executable(graph);
  executable.launch(stream);
  EXPECT_EQ(first.values(), std::vector<int>(300, 1));
  cudaGraphExecUpdateResultInfo info{};
  ASSERT_EQ(cudaGraphExecUpdate(executable, update, &info), cudaSuccess);
  executable.launch(stream);
  EXPECT_EQ(first.values(), std::vector<int>(300, 1));
  EXPECT_EQ(second.values(), made_by<int>(300, [](int i) { return i < 100 ? 2 : 0; }));
}

// CUDA C++ Programming Guide 13.0, Multi-Device System, Stream and Event Behavior: a kernel is not launched into
// another device's stream
TEST_F(CudaKernels, AreNotLaunchedIntoStreamsOfOtherDevices) {
  const Array<int> memory(16);
  const Stream stream;
  check(cudaSetDevice(1));
  EXPECT_NE(launch_fill(memory.data(), 1, 16, stream), cudaSuccess);
  check(cudaSetDevice(0));
  EXPECT_EQ(memory.values(), std::vector<int>(16));
}

}  // namespace
}  // namespace emulated_gpu::semantics
