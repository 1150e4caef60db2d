// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/prefetcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/read_samples.hpp"
#include "data/signals.hpp"
#include "data/small_dataset.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

constexpr std::int64_t samples = 53;
constexpr std::int64_t batch = 8;

class PrefetcherTest : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static DistributedSampler sampler(int rank = 0, int ranks = 1) {
    return DistributedSampler({.samples = {samples}, .batch = {batch}, .rank = {rank}, .ranks = ranks});
  }
  [[nodiscard]] static PrefetchOptions options() { return {.workers = GetParam()}; }

  [[nodiscard]] Prefetcher make(const DistributedSampler& sampler) const {
    return {dataset_, DType::float32, sampler, options()};
  }

  /// Compares a batch with the data set's samples at the sampler's indices, read without prefetching.
  void expect_batch(const Batch& got, const DistributedSampler& sampler, std::int64_t step) const {
    const auto indices = sampler.indices(step);
    std::vector<float> images(indices.size() * 24);
    std::vector<std::int32_t> labels(indices.size());
    read_samples(*dataset_, indices, std::array<Buffer, 2>{std::span(images), std::span(labels)});
    EXPECT_EQ(got.step, step);
    ASSERT_EQ(got.samples.value, static_cast<std::int64_t>(indices.size()));
    EXPECT_EQ(got.step_samples, sampler.step_samples(step));
    EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), indices.begin(), indices.end()));
    ASSERT_EQ(got.tensors.size(), 2U);
    expect_elements<float>(images, got.tensors[0]);
    expect_elements<std::int32_t>(labels, got.tensors[1]);
  }

  std::shared_ptr<const Dataset> dataset_ = small_dataset(samples);

 private:
  template <class Element>
  static void expect_elements(const std::vector<Element>& expected, const Buffer& got) {
    ASSERT_EQ(got.dtype, dtype_of<Element>());
    ASSERT_EQ(got.count.value, static_cast<std::int64_t>(expected.size()));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), static_cast<const Element*>(got.data)));
  }
};

TEST_P(PrefetcherTest, HandsOutTheSamplersBatchesInOrder) {
  for (int rank = 0; rank < 3; ++rank) {
    auto expected = sampler(rank, 3);
    auto prefetcher = make(sampler(rank, 3));
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

/// After a move the next batch is that of the new shards, which may be larger; those prepared ahead do not count.
TEST_P(PrefetcherTest, GoesOnWithTheShardsThatARankHasNow) {
  const LeafShares moves[] = {LeafShares(std::vector<int>{1, 7}), LeafShares(std::vector<int>{5, 3}), 8};
  for (int rank = 0; rank < 2; ++rank) {
    DistributedSampler expected(
        {.samples = {samples}, .batch = {batch}, .rank = {rank}, .ranks = 2, .seed = 3, .shards = 8});
    auto prefetcher = make(expected);
    for (std::int64_t epoch = 1; epoch <= 2; ++epoch) {
      expected.start_epoch(epoch);
      prefetcher.start_epoch(epoch);
      for (std::int64_t step = 0; step < expected.steps(); ++step) {
        const Batch* got = prefetcher.next();
        ASSERT_NE(got, nullptr);
        expect_batch(*got, expected, step);
        const LeafShares& moved = moves[static_cast<std::size_t>(step) % std::size(moves)];
        expected.move_shards(moved);
        prefetcher.move_shards(moved);
        EXPECT_EQ(expected.largest_share().value, moved.of(rank, 2).count) << "a sample for each shard";
      }
      EXPECT_EQ(prefetcher.next(), nullptr);
    }
    EXPECT_EQ(code_of([&] { prefetcher.move_shards(9); }), ErrorCode::invalid_argument) << "another number of shards";
    EXPECT_EQ(code_of([&] {
                prefetcher.move_shards(LeafShares(std::vector<int>{2, 2, 4}));
              }),
              ErrorCode::invalid_argument)
        << "of three ranks";
  }
}

/// Each sample is its key.
class Keys final : public Dataset {
 public:
  [[nodiscard]] std::string name() const override { return "keys"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return {{"key", {3, 1, 1}}}; }
  [[nodiscard]] std::int64_t size() const override { return samples; }
  [[nodiscard]] std::int64_t classes() const override { return 0; }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    EXPECT_EQ(tensors[0].count, 3);
    auto* out = static_cast<double*>(tensors[0].data);
    out[0] = static_cast<double>(key.seed);
    out[1] = static_cast<double>(key.epoch);
    out[2] = static_cast<double>(key.index);
  }
};

/// What augmentation may depend on is the same on any number of ranks, and if an epoch begins in its middle.
TEST_P(PrefetcherTest, GivesEachSampleTheKeyOfItsSeedEpochAndIndex) {
  for (const int ranks : {1, 3}) {
    std::multiset<std::int64_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      Prefetcher prefetcher(
          std::make_shared<Keys>(), DType::float64,
          DistributedSampler(
              {.samples = {samples}, .batch = {batch}, .rank = {rank}, .ranks = ranks, .seed = 17, .shards = 5}),
          options());
      for (const std::int64_t epoch : {2, 5}) {
        prefetcher.start_epoch(epoch, epoch == 2 ? 0 : 3);
        while (const Batch* got = prefetcher.next()) {
          ASSERT_EQ(got->ids.size(), static_cast<std::size_t>(got->samples.value));
          const auto* key = static_cast<const double*>(got->tensors[0].data);
          for (const std::int64_t id : got->ids) {
            EXPECT_EQ(*key++, 17);
            EXPECT_EQ(*key++, epoch);
            EXPECT_EQ(*key++, id);
            if (epoch == 2) seen.insert(id);
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(samples));
    for (std::int64_t id = 0; id < samples; ++id) EXPECT_EQ(seen.count(id), 1U) << id << " on " << ranks << " ranks";
  }
}

TEST_P(PrefetcherTest, ARankWithoutSamplesGetsAnEmptyBatch) {
  auto prefetcher = make(sampler(7, 8));
  prefetcher.start_epoch(1);
  const Batch* last = nullptr;
  while (const Batch* got = prefetcher.next()) last = got;
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->samples, Count{0});
  EXPECT_EQ(last->step_samples, Count{samples % batch});
  ASSERT_EQ(last->tensors.size(), 2U);
  for (const Buffer& tensor : last->tensors) EXPECT_EQ(tensor.count, Count{0});
}

TEST_P(PrefetcherTest, HandsOutNothingBeforeTheFirstEpoch) {
  auto prefetcher = make(sampler());
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST_P(PrefetcherTest, BeginsAnEpochInItsMiddleAndLeavesOneUnfinished) {
  auto expected = sampler();
  auto prefetcher = make(sampler());
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
  EXPECT_EQ(code_of([&] { prefetcher.start_epoch(1, -1); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { prefetcher.start_epoch(1, expected.steps() + 1); }), ErrorCode::invalid_argument);
}

TEST_P(PrefetcherTest, UsesTheSameMemoryAgain) {
  auto prefetcher = make(sampler());
  std::array<std::set<const void*>, 2> seen;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    prefetcher.start_epoch(epoch);
    while (const Batch* got = prefetcher.next())
      for (std::size_t i = 0; i < seen.size(); ++i) seen[i].insert(got->tensors[i].data);
  }
  for (const auto& memory : seen)
    EXPECT_LE(memory.size(), GetParam() == 0 ? 1U : static_cast<std::size_t>(GetParam()) + 2);
}

TEST_P(PrefetcherTest, ABatchStaysUnchangedUntilTheNextCall) {
  auto prefetcher = make(sampler());
  prefetcher.start_epoch(1);
  (void)prefetcher.next();
  const Batch* got = prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // in the meantime, workers fill every free slot
  expect_batch(*got, sampler(), 1);
}

/// A device copies from the memory of a batch while the next one is taken.
TEST_P(PrefetcherTest, LeavesBytesInMemoryOfTheCallersThatStaysForSeveralBatches) {
  std::set<const void*> allocated;
  PrefetchOptions held = options();
  held.bytes = {"images"};
  held.held = 3;
  held.allocate = [&allocated](Bytes bytes) {
    Allocation memory = allocate_host(bytes);
    allocated.insert(memory.data());
    return memory;
  };
  Prefetcher prefetcher(dataset_, DType::float32, sampler(), held);
  const auto& original = static_cast<const ImageDataset&>(*dataset_);
  for (std::int64_t epoch = 1; epoch <= 2; ++epoch) {
    prefetcher.start_epoch(epoch);
    std::vector<const Batch*> batches;
    while (const Batch* got = prefetcher.next()) {
      batches.push_back(got);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // for workers to overwrite what they may
      for (std::size_t i = batches.size() < 3 ? 0 : batches.size() - 3; i < batches.size(); ++i) {
        const Batch& batch_held = *batches[i];
        ASSERT_EQ(batch_held.step, static_cast<std::int64_t>(i));
        EXPECT_TRUE(allocated.contains(batch_held.tensors[0].data));
        ASSERT_EQ(batch_held.tensors[0].dtype, DType::uint8);
        ASSERT_EQ(batch_held.tensors[0].count.value, 24 * batch_held.samples.value);
        const auto* bytes = static_cast<const std::uint8_t*>(batch_held.tensors[0].data);
        for (const std::int64_t id : batch_held.ids) {
          const auto image = original.images().image(id);
          EXPECT_TRUE(std::equal(image.begin(), image.end(), bytes)) << "step " << i << ", sample " << id;
          bytes += 24;
        }
      }
    }
    EXPECT_EQ(batches.size(), 7U);
  }
}

TEST_P(PrefetcherTest, AnErrorComesInItsPlaceAndGoesWithTheEpoch) {
  // One sample cannot be read. Only the step that needs it, the last one, fails.
  const auto signals = std::make_shared<Signals>(samples);
  signals->unreadable = samples - 1;
  const DistributedSampler in_order({.samples = {samples}, .batch = {batch}, .shuffle = false});
  Prefetcher prefetcher(signals, DType::float32, in_order, options());
  for (int epoch = 1; epoch <= 2; ++epoch) {
    prefetcher.start_epoch(epoch);
    for (std::int64_t step = 0; step + 1 < in_order.steps(); ++step) ASSERT_NE(prefetcher.next(), nullptr);
    for (int call = 0; call < 2; ++call) {
      try {
        (void)prefetcher.next();
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.message(), "sample 52 is unreadable");
      }
    }
  }
}

TEST_P(PrefetcherTest, ThrowsWhatTheAllocationOfItsMemoryThrows) {
  bool is_full = false;
  const DistributedSampler of_shards(
      {.samples = {samples}, .batch = {batch}, .rank = {0}, .ranks = 2, .seed = 3, .shards = 8});
  PrefetchOptions limited = options();
  limited.allocate = [&is_full](Bytes bytes) {
    if (is_full) throw Error(ErrorCode::out_of_memory, "no room for a batch");
    return allocate_host(bytes);
  };
  const auto make_limited = [&] { return Prefetcher(dataset_, DType::float32, of_shards, limited); };
  Prefetcher prefetcher = make_limited();
  is_full = true;
  expect_error([&] { (void)make_limited(); }, ErrorCode::out_of_memory, {"no room for a batch"});
  expect_error(
      [&] {
        prefetcher.move_shards(LeafShares(std::vector<int>{7, 1}));
      },
      ErrorCode::out_of_memory, {"no room for a batch"});
  limited.allocate = [](Bytes) -> Allocation { throw std::bad_alloc(); };
  EXPECT_THROW((void)make_limited(), std::bad_alloc);
}

TEST_P(PrefetcherTest, MayBeDestroyedAtAnyTime) {
  for (int taken = 0; taken < 9; ++taken) {
    auto prefetcher = make(sampler());
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
    made_bytes += span.bytes.value;
  }
  int waits = 0;
  int makes = 0;
  std::int64_t made_bytes = 0;

 private:
  std::mutex mutex_;
};

TEST_P(PrefetcherTest, ReportsWhatItMakesAndHowLongItIsWaitedFor) {
  CountingObserver observer;
  {
    Prefetcher prefetcher(dataset_, DType::float32, sampler(), {.workers = GetParam(), .observer = &observer});
    prefetcher.start_epoch(1);
    while (prefetcher.next() != nullptr) {
    }
    EXPECT_GT(prefetcher.waited_seconds(), 0);
  }
  EXPECT_EQ(observer.makes, 7);
  EXPECT_EQ(observer.waits, 7);
  EXPECT_EQ(observer.made_bytes, samples * (24 * 4 + 4));
}

TEST_P(PrefetcherTest, ReportsTheFirstOfSeveralErrorsOfABatch) {
  class Unreadable final : public Dataset {
   public:
    [[nodiscard]] std::string name() const override { return "unreadable"; }
    [[nodiscard]] std::vector<TensorSpec> tensors() const override { return {{"large", {1, 128, 128}}}; }
    [[nodiscard]] std::int64_t size() const override { return samples; }
    [[nodiscard]] std::int64_t classes() const override { return 0; }
    void read(const SampleKey& key, std::span<const Buffer>) const override {
      if (key.index == 10) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // others fail before it
      if (key.index >= 10) throw Error(ErrorCode::io, "sample " + std::to_string(key.index) + " is unreadable");
    }
  };
  Prefetcher prefetcher(std::make_shared<Unreadable>(), DType::float32,
                        DistributedSampler({.samples = {samples}, .batch = {batch}, .shuffle = false}), options());
  prefetcher.start_epoch(1);
  ASSERT_NE(prefetcher.next(), nullptr);
  for (int call = 0; call < 2; ++call)
    expect_error([&] { (void)prefetcher.next(); }, ErrorCode::io, {"sample 10 is unreadable"});
}

INSTANTIATE_TEST_SUITE_P(Workers, PrefetcherTest, testing::Values(0, 1, 2, 4),
                         [](const auto& workers) { return std::to_string(workers.param); });

/// A data set of samples that are large enough to be tasks of their own. One of them waits until it is let go.
class OneWaits final : public Dataset {
 public:
  explicit OneWaits(std::int64_t slow) : slow_(slow) {}
  [[nodiscard]] std::string name() const override { return "one waits"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return {{"large", {1, 128, 128}}}; }
  [[nodiscard]] std::int64_t size() const override { return samples; }
  [[nodiscard]] std::int64_t classes() const override { return 0; }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    *static_cast<float*>(tensors[0].data) = static_cast<float>(key.index);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return key.index != slow_ || may_go_; });
    read_.insert(key.index);
    changed_.notify_all();
  }
  /// Waits until that many samples have been read. @return those that have
  std::set<std::int64_t> wait_for(std::size_t count) const {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return read_.size() >= count; }));
    return read_;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    may_go_ = true;
    changed_.notify_all();
  }

 private:
  std::int64_t slow_;
  bool may_go_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::set<std::int64_t> read_;
};

/// While sample 9 of batch 1 is read, another worker reads the rest of its batch and as many batches behind it as there
/// is memory for. Only batch 1 waits.
TEST(Prefetcher, ASlowSampleDelaysItsBatchOnly) {
  const auto dataset = std::make_shared<OneWaits>(9);
  Prefetcher prefetcher(dataset, DType::float32,
                        DistributedSampler({.samples = {samples}, .batch = {batch}, .shuffle = false}), {.workers = 2});
  prefetcher.start_epoch(1);
  ASSERT_NE(prefetcher.next(), nullptr);
  std::set<std::int64_t> expected;  // of one batch that is held and three ahead
  for (std::int64_t sample = 0; sample < 4 * batch; ++sample)
    if (sample != 9) expected.insert(sample);
  EXPECT_EQ(dataset->wait_for(expected.size()), expected);
  dataset->let_go();
  for (std::int64_t step = 1; step < 7; ++step) {
    const Batch* got = prefetcher.next();
    ASSERT_NE(got, nullptr);
    const auto* first = static_cast<const float*>(got->tensors[0].data);
    for (std::int64_t i = 0; i < got->samples.value; ++i)
      EXPECT_EQ(first[i * 128 * 128], static_cast<float>(step * batch + i));
  }
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, BoundsTheMemoryOfBatchesAhead) {
  constexpr std::int64_t batch_bytes = batch * 128 * 128 * 4;
  for (const auto& [ahead, batches] : {std::pair(std::int64_t{0}, 1),
                                       {batch_bytes, 1},
                                       {3 * batch_bytes - 1, 2},
                                       {3 * batch_bytes, 3},
                                       {100 * batch_bytes, 5}}) {
    std::int64_t allocated = 0;
    PrefetchOptions options{.workers = 4, .held = 2, .ahead = {ahead}};
    options.allocate = [&allocated](Bytes bytes) {
      allocated += bytes.value;
      return allocate_host(bytes);
    };
    Prefetcher prefetcher(std::make_shared<OneWaits>(-1), DType::float32,
                          DistributedSampler({.samples = {samples}, .batch = {batch}, .shuffle = false}), options);
    EXPECT_EQ(allocated, (2 + batches) * batch_bytes) << ahead << " bytes ahead";
    prefetcher.start_epoch(1);
    for (std::int64_t step = 0; step < 7; ++step) {
      const Batch* got = prefetcher.next();
      ASSERT_NE(got, nullptr);
      EXPECT_EQ(got->step, step);
    }
  }
}

TEST(Prefetcher, RefusesWhatCannotWork) {
  const auto expect_refused = [](std::shared_ptr<const Dataset> dataset, DType real, std::int64_t dealt, int workers,
                                 const std::string& message) {
    expect_error(
        [&] {
          Prefetcher(std::move(dataset), real, DistributedSampler({.samples = {dealt}, .batch = {2}}),
                     {.workers = workers});
        },
        ErrorCode::invalid_argument, {message});
  };
  expect_refused(small_dataset(4), DType::float32, 4, -1, "the number of workers must not be negative, not -1");
  for (const DType other : {DType::int32, DType::float16, DType::bfloat16})
    expect_refused(small_dataset(4), other, 4, 0,
                   "batches are made in float32 or float64, not in " + std::string(name(other)));
  expect_refused(nullptr, DType::float32, 4, 0, "none was given");
  expect_refused(small_dataset(4), DType::float64, 5, 1,
                 R"(the sampler deals 5 samples, but the data set "small" has only 4)");
  const auto expect_option_refused = [](const PrefetchOptions& options, const std::string& message) {
    expect_error(
        [&] {
          Prefetcher(small_dataset(4), DType::float32, DistributedSampler({.samples = {4}, .batch = {2}}), options);
        },
        ErrorCode::invalid_argument, {message});
  };
  expect_option_refused({.held = 0}, "at least 1 batch has to stay valid, not 0");
  expect_option_refused({.ahead = {-1}}, "the memory of batches ahead must not be negative, not -1 bytes");
  expect_option_refused({.bytes = {"images", "labels"}},
                        R"(the data set "small" does not have bytes of all of its tensors "images", "labels")");
}

}  // namespace
}  // namespace lockstep::data
