// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/schedule_cache.hpp"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::backends {
namespace {

using Kept = std::weak_ptr<const CompiledSchedule>;

class ScheduleCacheTest : public testing::Test {
 protected:
  Kept of_leaves(const LeafShares& shares) {
    const Buffer buffer(numbers_.data(), {8}, DType::float32);
    return cache_.find_or_make(
        {.kind = CollectiveKind::all_reduce, .in = buffer, .out = buffer, .leaves = {shares, {8}}},
        collectives::Reach::direct);
  }
  Kept of_parts(std::int64_t first, std::int64_t second) {
    const std::array<Count, 2> parts{Count{first}, Count{second}};
    const Buffer whole(numbers_.data(), {first + second}, DType::float32);
    return cache_.find_or_make(
        {.kind = CollectiveKind::all_gather_v, .in = slice(whole, {0}, {first}), .out = whole, .parts = parts},
        collectives::Reach::direct);
  }

  std::vector<float> numbers_ = std::vector<float>(4096);
  ScheduleCache cache_{
      {0}, ClusterShape{{0, 1}}, collectives::selection_on(ClusterShape{{0, 1}}, {}), {1 << 20}, false};
};

TEST_F(ScheduleCacheTest, KeepsTheLastUnevenSharesAndTheEvenOnes) {
  const Kept even = of_leaves(8);
  const Kept first = of_leaves(LeafShares(std::vector<int>{1, 7}));
  EXPECT_EQ(of_leaves(LeafShares(std::vector<int>{1, 7})).lock(), first.lock());
  const Kept second = of_leaves(LeafShares(std::vector<int>{6, 2}));
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
  EXPECT_FALSE(even.expired());
  EXPECT_EQ(of_leaves(8).lock(), even.lock());
}

TEST_F(ScheduleCacheTest, KeepsAFixedNumberOfSchedulesWithPerRankCounts) {
  const Kept first = of_parts(1, 1);
  for (std::int64_t count = 2; count <= static_cast<std::int64_t>(ScheduleCache::most_of_parts); ++count)
    (void)of_parts(1, count);
  EXPECT_EQ(of_parts(1, 1).lock(), first.lock());
  const Kept last = of_parts(2, 1);
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(last.expired());
}

}  // namespace
}  // namespace lockstep::backends
