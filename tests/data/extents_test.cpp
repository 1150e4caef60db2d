// SPDX-License-Identifier: Apache-2.0
// Batches of steps whose tensors have different extents.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "data/dataset_of_sizes.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/data/augment.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

constexpr std::int64_t samples_of_sizes = 53;
constexpr std::int64_t batch_of_sizes = 8;

DistributedSampler sampler_for_sizes(int rank = 0, int ranks = 1) {
  return DistributedSampler({.samples = {samples_of_sizes}, .batch = {batch_of_sizes}, .rank = {rank}, .ranks = ranks});
}

/// The bytes of a batch's images, and which extents they have.
struct SizedStep {
  std::size_t extents = 0;
  std::vector<float> images;
  friend bool operator==(const SizedStep&, const SizedStep&) = default;
};

std::vector<SizedStep> steps_of(Prefetcher& prefetcher, std::int64_t epoch, std::int64_t first_step) {
  prefetcher.start_epoch(epoch, first_step);
  std::vector<SizedStep> steps;
  while (const Batch* got = prefetcher.next()) {
    const auto* images = static_cast<const float*>(got->tensors[0].data);
    steps.push_back({got->extents, {images, images + got->tensors[0].count.value}});
  }
  return steps;
}

TEST(Extents, AreThoseOfTheStepOnAnyWorkersAndInAResumedEpoch) {
  const auto dataset = std::make_shared<DatasetOfSizes>(samples_of_sizes);
  std::vector<SizedStep> expected;
  for (const int workers : {0, 1, 3}) {
    Prefetcher prefetcher(dataset, DType::float32, sampler_for_sizes(), {.workers = workers, .draws_extents = true});
    const std::vector<SizedStep> found = steps_of(prefetcher, 2, 0);
    if (workers == 0) expected = found;
    EXPECT_EQ(found, expected) << workers;
    const std::vector<SizedStep> rest = steps_of(prefetcher, 2, 3);
    EXPECT_EQ(rest, std::vector<SizedStep>(expected.begin() + 3, expected.end())) << workers;
  }
  ASSERT_EQ(expected.size(), 7U);
  const std::int64_t pixels[] = {64, 16, 144};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(expected[step].extents, (step + 2) % 3);
    const std::int64_t count = step == 6 ? samples_of_sizes % batch_of_sizes : batch_of_sizes;
    EXPECT_EQ(expected[step].images.size(), static_cast<std::size_t>(count * pixels[(step + 2) % 3]));
  }
}

TEST(Extents, AreTheSameOnAllRanks) {
  const auto dataset = std::make_shared<DatasetOfSizes>(samples_of_sizes);
  for (int rank = 0; rank < 3; ++rank) {
    Prefetcher prefetcher(dataset, DType::float32, sampler_for_sizes(rank, 3), {.draws_extents = true});
    const std::vector<SizedStep> found = steps_of(prefetcher, 1, 0);
    for (std::size_t step = 0; step < found.size(); ++step) EXPECT_EQ(found[step].extents, (step + 1) % 3) << rank;
  }
}

TEST(Extents, AreTheFirstOnesUnlessTheyAreDrawn) {
  Prefetcher prefetcher(std::make_shared<DatasetOfSizes>(samples_of_sizes), DType::float32, sampler_for_sizes());
  for (const SizedStep& step : steps_of(prefetcher, 1, 0)) EXPECT_EQ(step.extents, 0U);
}

TEST(Extents, StayWithAugmentation) {
  const auto plain = std::make_shared<DatasetOfSizes>(samples_of_sizes);
  const auto dataset = augmented(plain, {.crop = true});
  EXPECT_EQ(dataset->extents(), plain->extents());
  EXPECT_EQ(dataset->extents_of({.epoch = 1, .step = 1}), 2U);
  std::vector<float> image(144, 7);
  std::int32_t label = 0;
  dataset->read({.index = 3, .extents = 1},
                std::array<Buffer, 2>{std::span(image).first(16), Buffer(&label, {1}, DType::int32)});
  EXPECT_NE(image[15], 7);
  EXPECT_EQ(image[16], 7) << "an image of 4×4 has 16 pixels";
}

TEST(Extents, DifferInHeightAndWidthOnly) {
  class Odd final : public Dataset {
   public:
    explicit Odd(std::vector<std::vector<TensorSpec>> extents) : extents_(std::move(extents)) {}
    [[nodiscard]] std::string name() const override { return "odd"; }
    [[nodiscard]] std::vector<TensorSpec> tensors() const override { return {{"x", {3, 8, 8}}}; }
    [[nodiscard]] std::vector<std::vector<TensorSpec>> extents() const override { return extents_; }
    [[nodiscard]] std::int64_t size() const override { return 1; }
    [[nodiscard]] std::int64_t classes() const override { return 0; }
    void read(const SampleKey&, std::span<const Buffer>) const override {}

   private:
    std::vector<std::vector<TensorSpec>> extents_;
  };
  const TensorSpec usual{"x", {3, 8, 8}};
  EXPECT_EQ(extents_with_bytes(Odd({{usual}, {{"x", {3, 4, 6}}}})).size(), 2U);
  const auto refused = [](std::vector<std::vector<TensorSpec>> extents) {
    return code_of([&] { (void)extents_with_bytes(Odd(std::move(extents))); }) == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused({{usual}, {{"x", {1, 8, 8}}}})) << "other channels";
  EXPECT_TRUE(refused({{usual}, {{"y", {3, 4, 4}}}})) << "another name";
  EXPECT_TRUE(refused({{usual}, {{"x", {3, 4, 4}, Content::integer}}})) << "other contents";
  EXPECT_TRUE(refused({{usual}, {usual, {"y", {1, 1, 1}}}})) << "another tensor";
  EXPECT_TRUE(refused({{usual}, {{"x", {3, 0, 4}}}})) << "no pixels";
  EXPECT_TRUE(refused({{{"x", {3, 4, 4}}}})) << "not the usual ones first";
  EXPECT_TRUE(refused({})) << "none";
}

TEST(Extents, ThatADataSetDoesNotHaveAreRefused) {
  const auto dataset = std::make_shared<DatasetOfSizes>(samples_of_sizes);
  dataset->beyond = 1;
  for (const int workers : {0, 2}) {
    Prefetcher prefetcher(dataset, DType::float32, sampler_for_sizes(), {.workers = workers, .draws_extents = true});
    EXPECT_EQ(code_of([&] { prefetcher.start_epoch(1); }), ErrorCode::invalid_argument);
    EXPECT_EQ(prefetcher.next(), nullptr);
  }
}

}  // namespace
}  // namespace lockstep::data
