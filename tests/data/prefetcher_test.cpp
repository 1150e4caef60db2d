// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/prefetcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/small_dataset.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

constexpr std::int64_t samples = 53;
constexpr std::int64_t batch = 8;

class PrefetcherTest : public testing::TestWithParam<int> {
 protected:
  PrefetcherTest() : dataset_(small_dataset(samples)), normalization_(measure_normalization(dataset_)) {}

  [[nodiscard]] BatchMaker maker() const { return {dataset_, normalization_, DType::float32}; }
  [[nodiscard]] static DistributedSampler sampler(int rank = 0, int ranks = 1) {
    return DistributedSampler({.samples = {samples}, .batch = {batch}, .rank = {rank}, .ranks = ranks});
  }
  [[nodiscard]] static PrefetchOptions options() { return {.workers = GetParam()}; }

  /// What the maker makes of the sampler's indices without any prefetching.
  void expect_batch(const Batch& got, const DistributedSampler& sampler, std::int64_t step) const {
    const auto indices = sampler.indices(step);
    std::vector<float> images(indices.size() * 24);
    std::vector<std::int32_t> labels(indices.size());
    maker().make(indices, {images.data(), {static_cast<std::int64_t>(images.size())}}, labels);
    EXPECT_EQ(got.step, step);
    ASSERT_EQ(got.samples.value, static_cast<std::int64_t>(indices.size()));
    EXPECT_EQ(got.step_samples, sampler.step_samples(step));
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), got.labels.begin(), got.labels.end()));
    ASSERT_EQ(got.images.count.value, static_cast<std::int64_t>(images.size()));
    EXPECT_TRUE(std::equal(images.begin(), images.end(), static_cast<const float*>(got.images.data)));
  }

  Dataset dataset_;
  Normalization normalization_;
};

TEST_P(PrefetcherTest, HandsOutTheSamplersBatchesInOrder) {
  for (int rank = 0; rank < 3; ++rank) {
    auto expected = sampler(rank, 3);
    Prefetcher prefetcher(maker(), sampler(rank, 3), options());
    for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
      expected.start_epoch(epoch);
      prefetcher.start_epoch(epoch);
      for (std::int64_t step = 0; step < expected.steps(); ++step) {
        const Batch* got = prefetcher.next();
        ASSERT_NE(got, nullptr);
        expect_batch(*got, expected, step);
      }
      EXPECT_EQ(prefetcher.next(), nullptr);
      EXPECT_EQ(prefetcher.next(), nullptr);
    }
  }
}

TEST_P(PrefetcherTest, ARankWithoutSamplesGetsAnEmptyBatch) {
  Prefetcher prefetcher(maker(), sampler(7, 8), options());
  prefetcher.start_epoch(1);
  const Batch* last = nullptr;
  while (const Batch* got = prefetcher.next()) last = got;
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->samples, Count{0});
  EXPECT_EQ(last->step_samples, Count{samples % batch});
  EXPECT_TRUE(last->labels.empty());
}

TEST_P(PrefetcherTest, HandsOutNothingBeforeTheFirstEpoch) {
  Prefetcher prefetcher(maker(), sampler(), options());
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST_P(PrefetcherTest, BeginsAnEpochInItsMiddleAndLeavesOneUnfinished) {
  auto expected = sampler();
  Prefetcher prefetcher(maker(), sampler(), options());
  for (int epoch = 1; epoch <= 20; ++epoch) {
    const std::int64_t first_step = epoch % 7;
    prefetcher.start_epoch(epoch, first_step);
    expected.start_epoch(epoch);
    for (std::int64_t step = first_step; step < std::min<std::int64_t>(first_step + 2, 7); ++step) {
      const Batch* got = prefetcher.next();
      ASSERT_NE(got, nullptr);
      expect_batch(*got, expected, step);
    }
  }
  prefetcher.start_epoch(1, expected.steps());
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_THROW(prefetcher.start_epoch(1, -1), Error);
  EXPECT_THROW(prefetcher.start_epoch(1, expected.steps() + 1), Error);
}

TEST_P(PrefetcherTest, UsesTheSameMemoryAgain) {
  Prefetcher prefetcher(maker(), sampler(), options());
  std::vector<const void*> seen;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    prefetcher.start_epoch(epoch);
    while (const Batch* got = prefetcher.next())
      if (std::find(seen.begin(), seen.end(), got->images.data) == seen.end()) seen.push_back(got->images.data);
  }
  EXPECT_LE(seen.size(), GetParam() == 0 ? 1U : static_cast<std::size_t>(GetParam()) + 2);
}

TEST_P(PrefetcherTest, ABatchStaysUnchangedUntilTheNextCall) {
  Prefetcher prefetcher(maker(), sampler(), options());
  prefetcher.start_epoch(1);
  (void)prefetcher.next();
  const Batch* got = prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // workers fill every slot that is free
  expect_batch(*got, sampler(), 1);
}

TEST_P(PrefetcherTest, AnErrorComesInItsPlaceAndGoesWithTheEpoch) {
  // The sampler believes in one sample more than there is: only the step that takes it fails.
  DistributedSampler too_long({.samples = {samples + 1}, .batch = {batch}, .shuffle = false});
  Prefetcher prefetcher(maker(), too_long, options());
  for (int epoch = 1; epoch <= 2; ++epoch) {
    prefetcher.start_epoch(epoch);
    for (std::int64_t step = 0; step + 1 < too_long.steps(); ++step) ASSERT_NE(prefetcher.next(), nullptr);
    for (int call = 0; call < 2; ++call) {
      try {
        (void)prefetcher.next();
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.message(), "sample 53 is not in the data set \"small\" of 53");
      }
    }
  }
}

TEST_P(PrefetcherTest, MayBeDestroyedAtAnyTime) {
  for (int taken = 0; taken < 9; ++taken) {
    Prefetcher prefetcher(maker(), sampler(), options());
    if (taken > 0) prefetcher.start_epoch(1);
    for (int i = 1; i < taken; ++i) (void)prefetcher.next();
  }
}

class CountingObserver : public Observer {
 public:
  void span(const Span& span) override {
    const std::lock_guard lock(mutex_);
    EXPECT_LE(span.begin, span.end);
    ++(span.track == "compute" ? waits : makes);
  }
  int waits = 0;
  int makes = 0;

 private:
  std::mutex mutex_;
};

TEST_P(PrefetcherTest, ReportsWhatItMakesAndHowLongItIsWaitedFor) {
  CountingObserver observer;
  {
    Prefetcher prefetcher(maker(), sampler(), {.workers = GetParam(), .observer = &observer});
    prefetcher.start_epoch(1);
    while (prefetcher.next() != nullptr) {
    }
    EXPECT_GT(prefetcher.waited_seconds(), 0);
  }
  EXPECT_EQ(observer.makes, 7);
  EXPECT_EQ(observer.waits, 7);
}

INSTANTIATE_TEST_SUITE_P(Workers, PrefetcherTest, testing::Values(0, 1, 2, 4),
                         [](const auto& workers) { return std::to_string(workers.param); });

TEST(Prefetcher, RefusesANegativeNumberOfWorkers) {
  const Dataset dataset = small_dataset(4);
  const BatchMaker maker(dataset, measure_normalization(dataset), DType::float32);
  EXPECT_THROW(Prefetcher(maker, DistributedSampler({.samples = {4}, .batch = {2}}), {.workers = -1}), Error);
}

}  // namespace
}  // namespace lockstep::data
