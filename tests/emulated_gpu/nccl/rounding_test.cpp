// SPDX-License-Identifier: Apache-2.0
// Tests the order of sums, which NCCL_ALGO determines; no document promises more about it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "emulated_gpu/nccl/ranks.hpp"

namespace emulated_gpu::nccl_test::rounding {
namespace {

constexpr std::size_t count = 1000;

/// Sets NCCL_ALGO for the communicators that are made in the scope.
class AlgorithmSetting {
 public:
  explicit AlgorithmSetting(const char* value) { setenv("NCCL_ALGO", value, 1); }
  AlgorithmSetting(const AlgorithmSetting&) = delete;
  AlgorithmSetting& operator=(const AlgorithmSetting&) = delete;
  ~AlgorithmSetting() { unsetenv("NCCL_ALGO"); }
};

/// Returns values whose sum depends on the order, in all types.
template <typename T>
T brought(int rank, std::size_t i) {
  std::uint64_t bits = (i * 64 + static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15U;
  bits ^= bits >> 29;
  const auto digits = static_cast<float>(static_cast<std::int64_t>(bits % 2001) - 1000);
  return static_cast<T>(digits * (bits >> 60 < 8 ? 1.0F : 0.0003F));
}

template <typename T>
T add(T a, T b) {
  return static_cast<T>(static_cast<float>(a) + static_cast<float>(b));
}

/// Adds from left to right, from rank `first` on.
template <typename T>
T sum_from(int first, int ranks, std::size_t i) {
  T sum = brought<T>(first, i);
  for (int hop = 1; hop < ranks; ++hop) sum = add(sum, brought<T>((first + hop) % ranks, i));
  return sum;
}

template <typename T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Returns the result, which is the same on all ranks.
template <typename T>
std::vector<T> all_reduced(const char* algorithm, int ranks) {
  const AlgorithmSetting setting(algorithm);
  std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
  on_ranks(ranks, false, [&](const Rank& rank) {
    std::vector<T> own;
    for (std::size_t i = 0; i < count; ++i) own.push_back(brought<T>(rank.rank, i));
    DeviceValues<T> values(own);
    check(ncclAllReduce(values.data(), values.data(), count, type_of<T>(), ncclSum, rank.comm, rank.stream));
    rank.finish();
    results[static_cast<std::size_t>(rank.rank)] = values.get();
  });
  for (const std::vector<T>& result : results) EXPECT_TRUE(is_same(result, results.front())) << algorithm;
  return results.front();
}

template <typename T>
void expect_orders(int ranks) {
  std::vector<T> canonical;
  for (std::size_t i = 0; i < count; ++i) canonical.push_back(sum_from<T>(0, ranks, i));
  const std::vector<T> ring = all_reduced<T>("allreduce:ring", ranks);
  const std::vector<T> tree = all_reduced<T>("allreduce:tree", ranks);
  EXPECT_FALSE(is_same(ring, tree));
  EXPECT_FALSE(is_same(ring, canonical));
  EXPECT_FALSE(is_same(tree, canonical));
  EXPECT_TRUE(is_same(ring, all_reduced<T>("Ring", ranks)));
  std::set<int> needed;  // ranks at which the ring must have begun for some element
  for (std::size_t i = 0; i < count; ++i) {
    std::set<int> possible;
    for (int first = 0; first < ranks; ++first)
      if (to_double(sum_from<T>(first, ranks, i)) == to_double(ring[i])) possible.insert(first);
    EXPECT_FALSE(possible.empty()) << "the sum at " << i << " was not made round the ring";
    if (possible.size() == 1) needed.insert(*possible.begin());
  }
  EXPECT_GT(needed.size(), 1U) << "every part begins at the same rank";
}

class OrderOfSums : public testing::TestWithParam<int> {};

TEST_P(OrderOfSums, IsThatOfTheRingOrOfTheTree) { expect_orders<float>(GetParam()); }
TEST_P(OrderOfSums, RoundsEachSumToTheType) {
  expect_orders<__half>(GetParam());
  expect_orders<__nv_bfloat16>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(OnRanks, OrderOfSums, testing::Values(4, 5, 8));

TEST(BareAlgorithm, OfATreeLeavesTheOthersNone) {
  const AlgorithmSetting setting("Tree");
  on_ranks(2, true, [](const Rank& rank) {
    DeviceValues<float> in(std::vector<float>(count, 1));
    DeviceValues<float> out(2 * count);
    EXPECT_EQ(ncclAllReduce(in.data(), in.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream), ncclSuccess);
    rank.finish();
    EXPECT_EQ(in.get(), std::vector<float>(count, 2));
    EXPECT_EQ(ncclAllGather(in.data(), out.data(), count, ncclFloat32, rank.comm, rank.stream), ncclInvalidUsage);
    EXPECT_EQ(ncclBroadcast(in.data(), in.data(), count, ncclFloat32, 0, rank.comm, rank.stream), ncclInvalidUsage);
  });
}

TEST(BareAlgorithm, OfARingServesAll) {
  const AlgorithmSetting setting("Ring");
  on_ranks(2, true, [](const Rank& rank) {
    DeviceValues<float> values(std::vector<float>(count, static_cast<float>(rank.rank)));
    check(ncclBroadcast(values.data(), values.data(), count, ncclFloat32, 1, rank.comm, rank.stream));
    rank.finish();
    EXPECT_EQ(values.get(), std::vector<float>(count, 1));
  });
}

}  // namespace
}  // namespace emulated_gpu::nccl_test::rounding
