// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/signals.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

using NamedTensors = testing::TestWithParam<std::tuple<int, DType>>;

template <class Element>
void expect_elements(const Buffer& got, std::size_t tensor, std::int64_t elements,
                     std::span<const std::int64_t> indices) {
  ASSERT_EQ(got.dtype, dtype_of<Element>());
  ASSERT_EQ(got.count.value, static_cast<std::int64_t>(indices.size()) * elements);
  const auto* data = static_cast<const Element*>(got.data);
  for (const std::int64_t sample : indices)
    for (std::int64_t element = 0; element < elements; ++element)
      ASSERT_EQ(*data++, static_cast<Element>(Signals::value(tensor, sample, element))) << sample << ' ' << element;
}

template <class Real>
void expect_tensors(const Batch& got, std::span<const std::int64_t> indices) {
  ASSERT_EQ(got.samples.value, static_cast<std::int64_t>(indices.size()));
  ASSERT_EQ(got.tensors.size(), 3U);
  expect_elements<Real>(got.tensors[0], 0, 7, indices);
  expect_elements<Real>(got.tensors[1], 1, 2, indices);
  expect_elements<std::int32_t>(got.tensors[2], 2, 1, indices);
}

DistributedSampler deal(std::int64_t samples, int rank, int ranks) {
  return DistributedSampler({.samples = {samples}, .batch = {4}, .rank = {rank}, .ranks = ranks});
}

TEST_P(NamedTensors, OfSomebodyElsesDataSetAreHandedOut) {
  const auto [workers, real] = GetParam();
  const auto dataset = std::make_shared<Signals>(23);
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler expected = deal(23, rank, 3);
    Prefetcher prefetcher(dataset, real, expected, {.workers = workers});
    for (std::int64_t epoch = 1; epoch <= 3; ++epoch) {
      expected.start_epoch(epoch);
      prefetcher.start_epoch(epoch);
      for (std::int64_t step = 0; step < expected.steps(); ++step) {
        const Batch* got = prefetcher.next();
        ASSERT_NE(got, nullptr);
        EXPECT_EQ(got->step, step);
        EXPECT_EQ(got->step_samples, expected.step_samples(step));
        (real == DType::float32 ? expect_tensors<float> : expect_tensors<double>)(*got, expected.indices(step));
      }
      EXPECT_EQ(prefetcher.next(), nullptr);
    }
  }
}

TEST_P(NamedTensors, OfNoSamplesAreEmptyAndNotRead) {
  const auto [workers, real] = GetParam();
  const auto dataset = std::make_shared<Signals>(23);
  {
    Prefetcher prefetcher(dataset, real, deal(23, 4, 5), {.workers = workers});  // four samples for five ranks
    prefetcher.start_epoch(1);
    for (std::int64_t step = 0; step < 6; ++step) {
      const Batch* got = prefetcher.next();
      ASSERT_NE(got, nullptr);
      EXPECT_EQ(got->step_samples.value, step == 5 ? 3 : 4);
      (real == DType::float32 ? expect_tensors<float> : expect_tensors<double>)(*got, {});
    }
    EXPECT_EQ(prefetcher.next(), nullptr);
  }
  EXPECT_EQ(dataset->reads, 0);
}

TEST_P(NamedTensors, BelongToADataSetThatIsKeptAlive) {
  const auto [workers, real] = GetParam();
  auto dataset = std::make_shared<Signals>(4);
  const std::weak_ptr<Signals> watched = dataset;
  {
    Prefetcher prefetcher(std::move(dataset), real, deal(4, 0, 1), {.workers = workers});
    prefetcher.start_epoch(1);
    EXPECT_NE(prefetcher.next(), nullptr);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

INSTANTIATE_TEST_SUITE_P(WorkersAndPrecision, NamedTensors,
                         testing::Combine(testing::Values(0, 2), testing::Values(DType::float32, DType::float64)),
                         [](const auto& given) {
                           return std::to_string(std::get<0>(given.param)) + "_" +
                                  std::string(name(std::get<1>(given.param)));
                         });

TEST(NamedTensorsRefused, WhereTheyAreIllFormed) {
  const auto dataset = std::make_shared<Signals>(23);
  dataset->specs[1].extent = {2, -1, 1};
  expect_error([&] { Prefetcher(dataset, DType::float32, deal(23, 0, 1)); }, ErrorCode::invalid_argument,
               {R"(the data set "signals" has a tensor "targets" of 2×-1×1)"});
}

}  // namespace
}  // namespace lockstep::data
