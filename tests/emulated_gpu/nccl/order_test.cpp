// SPDX-License-Identifier: Apache-2.0
// Tests the order in which the emulated NCCL adds: by a ring or a tree, as requested. The two differ from each other
// and from the canonical order, so that a claim about the order of a sum can fail. Ranks are threads.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "emulated_gpu/nccl/fold.hpp"

namespace emulated_gpu {
namespace {

constexpr std::size_t count = 5000;
constexpr std::size_t bytes = count * sizeof(float);

using Values = std::vector<float>;

/// Returns values of very different magnitudes, so that sums show the order.
std::vector<Values> inputs_of(int ranks) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-10, 10);
  std::vector<Values> inputs(static_cast<std::size_t>(ranks), Values(count));
  for (Values& values : inputs)
    for (float& value : values) value = std::ldexp(mantissa(random), exponent(random));
  return inputs;
}

void check(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }
void check(ncclResult_t code) { ASSERT_EQ(code, ncclSuccess) << ncclGetErrorString(code); }

/// Returns a rank's result of the all-reduce.
Values sum_on(int rank, int ranks, const ncclUniqueId& id, Values values) {
  check(cudaSetDevice(rank));
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRank(&communicator, ranks, id, rank));
  float* data = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&data), bytes));
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaMemcpyAsync(data, values.data(), bytes, cudaMemcpyDefault, stream));
  check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, communicator, stream));
  check(cudaStreamSynchronize(stream));
  check(cudaMemcpyAsync(values.data(), data, bytes, cudaMemcpyDefault, stream));
  check(cudaStreamSynchronize(stream));
  check(ncclCommDestroy(communicator));
  check(cudaFree(data));
  check(cudaStreamDestroy(stream));
  return values;
}

/// Returns the sums on all ranks. @param algorithm  value of NCCL_ALGO
std::vector<Values> sums(const std::vector<Values>& inputs, const char* algorithm) {
  setenv("NCCL_ALGO", algorithm, 1);
  const int ranks = static_cast<int>(inputs.size());
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id));
  std::vector<Values> results(inputs.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      results[place] = sum_on(rank, ranks, id, inputs[place]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  unsetenv("NCCL_ALGO");
  return results;
}

/// Returns ((0 + 1) + (2 + 3)) + …
float canonical(const std::vector<Values>& inputs, std::size_t element, std::size_t first, std::size_t leaves) {
  if (leaves == 1) return inputs[first][element];
  std::size_t left = 1;
  while (2 * left < leaves) left *= 2;
  return canonical(inputs, element, first, left) + canonical(inputs, element, first + left, leaves - left);
}

bool same_bits(const Values& a, const Values& b) { return std::memcmp(a.data(), b.data(), bytes) == 0; }

class SumOrders : public testing::TestWithParam<int> {};

TEST_P(SumOrders, AreThoseOfARingAndOfATreeAndNotTheCanonicalOne) {
  const std::vector<Values> inputs = inputs_of(GetParam());
  const std::vector<Values> by_ring = sums(inputs, "allreduce:ring");
  const std::vector<Values> by_tree = sums(inputs, "allreduce:tree");
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    EXPECT_TRUE(same_bits(by_ring[0], by_ring[rank])) << rank;
    EXPECT_TRUE(same_bits(by_tree[0], by_tree[rank])) << rank;
  }
  Values in_canonical_order(count);
  for (std::size_t i = 0; i < count; ++i) in_canonical_order[i] = canonical(inputs, i, 0, inputs.size());
  EXPECT_FALSE(same_bits(by_ring[0], by_tree[0]));
  EXPECT_FALSE(same_bits(by_ring[0], in_canonical_order));
  EXPECT_FALSE(same_bits(by_tree[0], in_canonical_order));
}

INSTANTIATE_TEST_SUITE_P(, SumOrders, testing::Values(4, 5, 8), testing::PrintToStringParamName());

/// With three ranks, a ring that begins at rank b adds b, b + 1, b + 2; the root of the tree adds its two children to
/// its own value.
TEST(Fold, GoesRoundTheRingFromAnotherRankInEachStep) {
  const float a = 1e8F;
  const float b = -1e8F;
  const float c = 1;
  std::vector<const std::byte*> all;
  for (const float* value : {&a, &b, &c}) all.push_back(reinterpret_cast<const std::byte*>(value));
  const auto folded = [&](SumOrder order, std::size_t first) {
    float to = 0;
    fold(all, reinterpret_cast<std::byte*>(&to), 1, ncclFloat32, {}, order, first, 1);
    return to;
  };
  EXPECT_EQ(folded(SumOrder::ring, 0), 1) << "(a + b) + c";
  EXPECT_EQ(folded(SumOrder::ring, 1), 0) << "(b + c) + a";
  EXPECT_EQ(folded(SumOrder::ring, 2), 0) << "(c + a) + b";
  EXPECT_EQ(folded(SumOrder::tree, 0), 1) << "(a + b) + c";
}

}  // namespace
}  // namespace emulated_gpu
