// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "ddp/reducer.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ddp {
namespace {

Layout layout_of(const std::vector<std::int64_t>& counts) {
  Layout layout;
  for (std::size_t i = 0; i < counts.size(); ++i) layout.add("t" + std::to_string(i), {counts[i]});
  return layout;
}

TEST(Buckets, GoFromTheLastTensorToTheFirstAndCoverEveryElementOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> counts(1 + random() % 20);
    for (auto& count : counts) count = random() % 5000;
    const Layout layout = layout_of(counts);
    const BucketOptions options{.size = {static_cast<std::int64_t>(1 + random() % 20'000)},
                                .first = {static_cast<std::int64_t>(1 + random() % 4000)},
                                .least = {static_cast<std::int64_t>(1 + random() % 1000)}};
    const std::vector<Bucket> buckets = plan_buckets(layout, DType::float32, options);
    std::int64_t end = layout.count().value;
    int tensor = static_cast<int>(counts.size()) - 1;
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.offset.value + bucket.count.value, end);
      for (const int member : bucket.tensors) EXPECT_EQ(member, tensor--);
      EXPECT_EQ(bucket.offset, layout.at(bucket.tensors.back()).offset);
      end = bucket.offset.value;
    }
    EXPECT_EQ(end, 0);
    EXPECT_EQ(tensor, -1);
  }
}

TEST(Buckets, CloseOnceTheyHoldTheirSizeAndTheFirstOneSooner) {
  const Layout layout = layout_of({64, 64, 64, 64, 64});  // 256 bytes each
  const auto buckets = plan_buckets(layout, DType::float32, {.size = {512}, .first = {256}});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<int>{4}));
  EXPECT_EQ(buckets[1].tensors, (std::vector<int>{3, 2}));
  EXPECT_EQ(buckets[2].tensors, (std::vector<int>{1, 0}));
}

TEST(Buckets, GetSmallerTowardsTheEnd) {
  const Layout layout = layout_of(std::vector<std::int64_t>(16, 64));  // 256 bytes each
  const auto tensors_of = [&](const BucketOptions& options) {
    std::vector<std::size_t> tensors;
    for (const Bucket& bucket : plan_buckets(layout, DType::float32, options)) tensors.push_back(bucket.tensors.size());
    return tensors;
  };
  using Tensors = std::vector<std::size_t>;
  EXPECT_EQ(tensors_of({.size = {1024}, .first = {256}, .least = {256}}), (Tensors{1, 4, 4, 4, 2, 1}));
  EXPECT_EQ(tensors_of({.size = {1024}, .first = {256}, .least = {768}}), (Tensors{1, 4, 4, 4, 3}));
  EXPECT_EQ(tensors_of({.size = {1024}, .first = {256}, .least = {1024}}), (Tensors{1, 4, 4, 4, 3}));
}

/// A large tensor is one that is as large as a bucket, not as the last ones: a bias goes with its weight.
TEST(Buckets, DoNotLeaveSmallTensorsAloneTowardsTheEnd) {
  const auto buckets =
      plan_buckets(layout_of({64, 8, 64, 8, 400}), DType::float32, {.size = {1024}, .first = {1024}, .least = {64}});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<int>{4}));
  EXPECT_EQ(buckets[1].tensors, (std::vector<int>{3, 2}));
  EXPECT_EQ(buckets[2].tensors, (std::vector<int>{1, 0}));
}

TEST(Buckets, ATensorIsNeverCut) {
  const auto buckets = plan_buckets(layout_of({16, 1000, 16}), DType::float32, {.size = {64}, .first = {64}});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[1].tensors, (std::vector<int>{1}));
}

TEST(Buckets, ALargeTensorDoesNotHoldUpTheSmallOnesBeforeIt) {
  const auto buckets = plan_buckets(layout_of({8, 1000, 8, 8}), DType::float32, {.size = {256}, .first = {256}});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].tensors, (std::vector<int>{3, 2}));
  EXPECT_EQ(buckets[1].tensors, (std::vector<int>{1}));
  EXPECT_EQ(buckets[2].tensors, (std::vector<int>{0}));
}

TEST(Buckets, NoTensorsNoBuckets) { EXPECT_TRUE(plan_buckets(Layout(), DType::float32, {}).empty()); }

TEST(Buckets, RefuseASizeThatIsNotPositive) {
  EXPECT_THROW((void)plan_buckets(layout_of({1}), DType::float32, {.size = {0}}), Error);
  EXPECT_THROW((void)plan_buckets(layout_of({1}), DType::float32, {.first = {-1}}), Error);
  EXPECT_THROW((void)plan_buckets(layout_of({1}), DType::float32, {.least = {0}}), Error);
}

TEST(Buckets, HashTellsLayoutDtypeAndCutsApart) {
  const Layout layout = layout_of({64, 64});
  const auto coarse = plan_buckets(layout, DType::float32, {.size = {4096}, .first = {4096}});
  const auto fine = plan_buckets(layout, DType::float32, {.size = {4096}, .first = {1}});
  EXPECT_EQ(hash(layout, DType::float32, coarse), hash(layout, DType::float32, coarse));
  EXPECT_NE(hash(layout, DType::float32, coarse), hash(layout, DType::float32, fine));
  EXPECT_NE(hash(layout, DType::float32, coarse), hash(layout, DType::float64, coarse));
  EXPECT_NE(hash(layout, DType::float32, coarse), hash(layout_of({64, 63}), DType::float32, coarse));
}

}  // namespace
}  // namespace lockstep::ddp
