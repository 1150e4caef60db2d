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

TEST(EvaluationGroups, HaveTheirExtentsInBatches) {
  const auto dataset = std::make_shared<DatasetOfGroups>(20);
  const PairExtents extents = extents_of({dataset, dataset});
  EXPECT_EQ(extents.training, 1U);
  ASSERT_EQ(extents.all.size(), 3U);
  EXPECT_EQ(extents.evaluation, (std::vector<std::size_t>{0, 0, 1, 2})) << "the first group has the usual extents";
  std::vector<std::vector<std::int64_t>> groups;
  for (const EvaluationGroup& group : dataset->evaluation_groups()) groups.push_back(group.samples);
  for (const int ranks : {1, 2}) {
    for (const int workers : {0, 2}) {
      std::vector<std::size_t> seen(20);
      for (int rank = 0; rank < ranks; ++rank) {
        Prefetcher prefetcher(dataset, DType::float32,
                              DistributedSampler({.samples = {20},
                                                  .batch = {4 * ranks},
                                                  .rank = {rank},
                                                  .ranks = ranks,
                                                  .shuffle = false,
                                                  .together = {4},
                                                  .groups = groups}),
                              {.workers = workers});
        prefetcher.start_epoch(1);
        while (const Batch* got = prefetcher.next()) {
          for (const std::int64_t id : got->ids) {
            EXPECT_EQ(got->extents, static_cast<std::size_t>(1 + id % 3));
            seen[static_cast<std::size_t>(id)] += 1;
          }
          const std::int64_t pixels[] = {64, 16, 96};
          EXPECT_TRUE(got->ids.empty() || got->tensors[0].count.value == got->samples.value * pixels[got->extents - 1]);
        }
      }
      EXPECT_EQ(seen, std::vector<std::size_t>(20, 1));
    }
  }
}

TEST(EvaluationGroups, MustHaveEachSampleOnceAndTheTensorsOfTheDataSet) {
  class Wrong final : public Dataset {
   public:
    [[nodiscard]] std::string name() const override { return "wrong"; }
    [[nodiscard]] std::vector<TensorSpec> tensors() const override { return {{"images", {1, 2, 2}}}; }
    [[nodiscard]] std::vector<EvaluationGroup> evaluation_groups() const override { return groups; }
    [[nodiscard]] std::int64_t size() const override { return 3; }
    [[nodiscard]] std::int64_t classes() const override { return 0; }
    void read(const SampleKey& /*key*/, std::span<const Buffer> /*tensors*/) const override {}
    std::vector<EvaluationGroup> groups;
  };
  const auto refuse = [](const std::vector<EvaluationGroup>& groups, const std::string& part) {
    const auto wrong = std::make_shared<Wrong>();
    wrong->groups = groups;
    expect_error([&] { (void)extents_of({wrong, wrong}); }, ErrorCode::invalid_argument, {"\"wrong\"", part});
  };
  const std::vector<TensorSpec> tensors = {{"images", {1, 4, 2}}};
  refuse({{tensors, {0, 1}}}, "does not have its sample 2 once");
  refuse({{tensors, {0, 1}}, {tensors, {1, 2}}}, "does not have its sample 2 once");
  refuse({{tensors, {0, 1, 2, 3}}}, "has a sample 3");
  refuse({{{{"images", {2, 2, 2}}}, {0, 1, 2}}}, "only height and width may differ");
}

}  // namespace
}  // namespace lockstep::data
