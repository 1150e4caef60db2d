// SPDX-License-Identifier: Apache-2.0
// The features that kernels may use work as CUDA's documentation says.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "emulated_gpu/kernel/device_array.hpp"
#include "emulated_gpu/kernel/features.hpp"

namespace emulated_gpu::features {
namespace {

template <typename T>
std::vector<T> counted(std::size_t n, T first = T{0}) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Kernels, EachThreadOfAGridOfThreeDimensionsKnowsItsPlace) {
  const DeviceArray<unsigned> out(std::vector<unsigned>(3 * 4 * 5 * 6 * 7 * 2, 99));
  number_threads(out.data(), dim3(3, 4, 5), dim3(6, 7, 2), nullptr);
  EXPECT_EQ(out.values(), counted<unsigned>(3 * 4 * 5 * 6 * 7 * 2));
}

TEST(Kernels, SharedMemoryOfTwoDimensionsIsTheBlocks) {
  constexpr int n = 96;
  const std::vector<float> matrix = counted<float>(n * n);
  const DeviceArray<float> in(matrix);
  const DeviceArray<float> out(std::vector<float>(n * n));
  transpose(in.data(), out.data(), n, nullptr);
  const std::vector<float> transposed = out.values();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) EXPECT_EQ(transposed[i * n + j], matrix[j * n + i]);
}

TEST(Kernels, DynamicSharedMemoryHasTheLaunchsSize) {
  for (const int n : {1, 31, 1024}) {
    std::vector<int> values = counted<int>(static_cast<std::size_t>(n));
    const DeviceArray<int> in(values);
    const DeviceArray<int> out(values);
    reverse(in.data(), out.data(), n, nullptr);
    std::reverse(values.begin(), values.end());
    EXPECT_EQ(out.values(), values);
  }
}

TEST(Kernels, BarriersOrderATreeOverABlock) {
  const DeviceArray<double> in(counted<double>(256 * 9));
  const DeviceArray<double> out(std::vector<double>(9));
  sum_blocks(in.data(), out.data(), 9, nullptr);
  const std::vector<double> sums = out.values();
  for (std::size_t block = 0; block < 9; ++block)
    EXPECT_EQ(sums[block], 256 * (256.0 * static_cast<double>(block)) + 255 * 128);
}

TEST(Kernels, BarriersCountPredicates) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{33}, std::size_t{1000}}) {
    const DeviceArray<int> out(std::vector<int>(3));
    std::vector<int> values(n, 4);
    count_in_block(DeviceArray<int>(values).data(), out.data(), static_cast<int>(n), nullptr);
    EXPECT_EQ(out.values(), (std::vector{static_cast<int>(n), 1, 1}));
    values.assign(n, 0);
    count_in_block(DeviceArray<int>(values).data(), out.data(), static_cast<int>(n), nullptr);
    EXPECT_EQ(out.values(), (std::vector{0, 0, 0}));
    values.back() = -1;
    count_in_block(DeviceArray<int>(values).data(), out.data(), static_cast<int>(n), nullptr);
    EXPECT_EQ(out.values(), (std::vector{1, 1, n == 1 ? 1 : 0}));
  }
}

TEST(Kernels, WarpsVote) {
  std::vector<int> values(32);
  for (std::size_t lane = 0; lane < 32; ++lane) values[lane] = static_cast<int>(lane % 3);
  const DeviceArray<int> in(values);
  const DeviceArray<unsigned> out(std::vector<unsigned>(8 * 32));
  vote_in_warp(in.data(), out.data(), nullptr);
  const std::vector<unsigned> result = out.values();
  std::vector<unsigned> lanes_with(3);
  for (unsigned lane = 0; lane < 32; ++lane) lanes_with[lane % 3] |= 1U << lane;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const unsigned* mine = &result[8 * lane];
    EXPECT_EQ(mine[0], lanes_with[1] | lanes_with[2]);
    EXPECT_EQ(mine[1], 0U);
    EXPECT_EQ(mine[2], 1U);
    EXPECT_EQ(mine[3], lanes_with[lane % 3]);
    EXPECT_EQ(mine[4], ~0U);
    EXPECT_EQ(mine[5], 31U);
    EXPECT_EQ(mine[6], 2U);
    EXPECT_EQ(mine[7], (lane < 16 ? 0x0000ffffU : 0xffff0000U) & (lanes_with[1] | lanes_with[2]));
  }
}

TEST(Kernels, WarpsShuffle) {
  const std::vector<int> values = counted<int>(32, 100);
  const DeviceArray<int> in(values);
  const DeviceArray<int> out(std::vector<int>(6 * 32));
  shuffle_in_warp(in.data(), out.data(), nullptr);
  const std::vector<int> result = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    const int* mine = &result[static_cast<std::size_t>(6 * lane)];
    EXPECT_EQ(mine[0], 100 + lane / 8 * 8 + 3);
    EXPECT_EQ(mine[1], 100 + (lane < 2 ? lane : lane - 2));
    EXPECT_EQ(mine[2], 100 + (lane % 16 < 14 ? lane + 2 : lane));
    EXPECT_EQ(mine[3], 100 + (lane ^ 5));
    EXPECT_EQ(mine[4], 32 * 100 + 31 * 16);
    EXPECT_EQ(mine[5], (lane + 1) * 100 + lane * (lane + 1) / 2);
  }
}

TEST(Kernels, WarpsMeetWithMasks) {
  const DeviceArray<int> in(counted<int>(64));
  const DeviceArray<int> out(std::vector<int>(64));
  sum_half_warps(in.data(), out.data(), nullptr);
  const std::vector<int> sums = out.values();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], 16 * (i / 16 * 16) + 15 * 8);
}

TEST(Kernels, ThreadsMayWriteBytesOfOneWord) {
  std::vector<unsigned char> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * i % 251);
  const DeviceArray<unsigned char> in(bytes);
  const DeviceArray<unsigned> out(std::vector<unsigned>(64));
  sum_bytes(in.data(), out.data(), nullptr);
  const std::vector<unsigned> sums = out.values();
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i], std::accumulate(&bytes[4 * i], &bytes[4 * i] + 4, 0U));
}

TEST(Kernels, AtomicsOfSharedAndGlobalMemoryLoseNothing) {
  std::vector<int> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * i % 16);
  const DeviceArray<int> in(values);
  const DeviceArray<unsigned> counts(std::vector<unsigned>(16));
  histogram(in.data(), counts.data(), static_cast<int>(values.size()), nullptr);
  std::vector<unsigned> expected(16);
  for (const int value : values) ++expected[static_cast<std::size_t>(value)];
  EXPECT_EQ(counts.values(), expected);
}

TEST(Kernels, EachAtomicDoesItsOperation) {
  const DeviceArray<unsigned> out(std::vector<unsigned>(12));
  change_atomically(out.data(), nullptr);
  const std::vector<unsigned> result = out.values();
  EXPECT_EQ(result[0], 999U * 500U);
  EXPECT_EQ(result[1], static_cast<unsigned>(-1000));
  EXPECT_EQ(result[2], 999U);
  EXPECT_EQ(static_cast<int>(result[3]), -999);
  EXPECT_EQ(result[4], ~0U);
  EXPECT_EQ(result[5], 0U);
  EXPECT_EQ(result[6], 1000U % 7);            // the values are 0, 1, …, 6, 0, …
  EXPECT_EQ(result[7], (7 - 1000U % 7) % 7);  // the values are 0, 6, 5, …, 0, 6, …
  EXPECT_EQ(std::bit_cast<float>(result[8]), 500.0F);
  EXPECT_EQ(result[9], 7U);
  EXPECT_EQ(result[10], 1000U);
  EXPECT_EQ(result[11], 1000U);
}

TEST(Kernels, ComparingAndSwappingLosesNothing) {
  const DeviceArray<float> in(std::vector<float>(300, 0.25F));
  const DeviceArray<float> sum(std::vector<float>(1, 1.0F));
  add_by_swapping(in.data(), sum.data(), 300, nullptr);
  EXPECT_EQ(sum.values()[0], 76.0F);
}

TEST(Kernels, BlocksAndThreadsComeInOrdersThatDiffer) {
  std::set<std::vector<unsigned>> orders;
  for (int i = 0; i < 5; ++i) {
    const DeviceArray<unsigned> counter(std::vector<unsigned>(1));
    const DeviceArray<unsigned> out(std::vector<unsigned>(256));
    draw_numbers(counter.data(), out.data(), nullptr);
    std::vector<unsigned> order = out.values();
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, counted<unsigned>(256));
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST(Kernels, VariablesOfTheGpuStay) {
  const DeviceArray<unsigned> out(std::vector<unsigned>(1));
  count_launches(out.data(), nullptr);
  const unsigned first = out.values()[0];
  EXPECT_GT(first, 40U);
  count_launches(out.data(), nullptr);
  EXPECT_EQ(out.values()[0], first + 1);
}

TEST(Kernels, TakeFunctorsVectorsAndConstants) {
  constexpr int n = 4 * 100;
  std::vector<float4> values(n / 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = {1.0F * static_cast<float>(i), 2, 3, -1};
  const DeviceArray<float4> in(values);
  const DeviceArray<float4> out(values);
  scale(in.data(), out.data(), n, 3, nullptr);
  const std::vector<float4> scaled = out.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(scaled[i].x, 3.0F * static_cast<float>(i) + 0.5F);
    EXPECT_EQ(scaled[i].y, 5.0F);
    EXPECT_EQ(scaled[i].z, 11.0F);
    EXPECT_EQ(scaled[i].w, 0.0F);
  }
}

TEST(Launches, TakeTheirArgumentsAsTheyWereAtTheCall) {
  const DeviceArray<float4> in(std::vector<float4>(1, {1, 1, 1, 1}));
  const DeviceArray<float4> out(std::vector<float4>(1));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  expect_no_error(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  expect_no_error(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  float factor = 5;
  scale(in.data(), out.data(), 4, factor, stream);
  factor = 7;
  expect_no_error(cudaStreamEndCapture(stream, &graph));
  expect_no_error(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) {
    expect_no_error(cudaMemsetAsync(out.data(), 0, sizeof(float4), stream));
    expect_no_error(cudaGraphLaunch(executable, stream));
    expect_no_error(cudaStreamSynchronize(stream));
    EXPECT_EQ(out.values()[0].x, 5.5F);
  }
  expect_no_error(cudaGraphExecDestroy(executable));
  expect_no_error(cudaGraphDestroy(graph));
  expect_no_error(cudaStreamDestroy(stream));
}

/// @source CUDA C++ Programming Guide 13.0, technical specifications per compute capability
TEST(Launches, AreRefusedWhereTheyDoNotFitTheDevice) {
  const DeviceArray<unsigned> out(std::vector<unsigned>(2, 5));
  for (const auto& [grid, block] : {std::pair(dim3(0), dim3(1)),
                                    {dim3(1), dim3(0)},
                                    {dim3(1), dim3(1025)},
                                    {dim3(1), dim3(1, 1, 65)},
                                    {dim3(1), dim3(64, 32)},
                                    {dim3(1, 65536), dim3(1)}}) {
    number_threads(out.data(), grid, block, nullptr);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  reverse(nullptr, nullptr, 48 * 1024 / 4 + 1, nullptr);
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector{5U, 5U}));
}

}  // namespace
}  // namespace emulated_gpu::features
