// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/prefetcher.hpp"
#include "support/errors.hpp"
#include "vision/pattern_source.hpp"
#include "vision/planes.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

constexpr std::int64_t samples = 53;
constexpr std::int64_t batch = 8;
constexpr Size seen_size{.width = 24, .height = 24};

PictureOptions options(std::string_view transforms = "random-resized-crop,flip,color-jitter") {
  return {.name = "pattern",
          .input = seen_size,
          .transforms = parse_transforms(transforms, seen_size),
          .normalization = {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}}};
}

std::shared_ptr<PictureCache> cache_of(std::int64_t bytes) {
  std::string why_not;
  auto file = make_memory_file(PictureCache::file_bytes(samples, {bytes}), {}, why_not);
  return std::make_shared<PictureCache>(std::move(file), samples);
}

struct ReadSample {
  std::vector<std::uint8_t> bytes;
  std::int32_t label = 0;
  friend bool operator==(const ReadSample&, const ReadSample&) = default;
};

ReadSample read(const PictureDataset& dataset, const data::SampleKey& key) {
  ReadSample sample;
  sample.bytes.resize(static_cast<std::size_t>(dataset.tensors()[0].elements()));
  dataset.read(key, std::array<Buffer, 2>{std::span(sample.bytes), sample.label});
  return sample;
}

/// Adds the samples that one rank gets in the rest of an epoch.
void add_samples(const std::shared_ptr<const PictureDataset>& dataset, int rank, int ranks, int workers,
                 std::int64_t epoch, std::int64_t first_step, std::map<std::int64_t, ReadSample>& to) {
  data::Prefetcher prefetcher(
      dataset, DType::float32,
      data::DistributedSampler({.samples = {samples}, .batch = {batch}, .rank = {rank}, .ranks = ranks, .seed = 5}),
      {.workers = workers, .bytes = {"images"}});
  prefetcher.start_epoch(epoch, first_step);
  const auto elements = static_cast<std::size_t>(dataset->tensors()[0].elements());
  while (const data::Batch* got = prefetcher.next()) {
    const auto* bytes = static_cast<const std::uint8_t*>(got->tensors[0].data);
    const auto* labels = static_cast<const std::int32_t*>(got->tensors[1].data);
    for (std::size_t i = 0; i < got->ids.size(); ++i, bytes += elements)
      EXPECT_TRUE(to.emplace(got->ids[i], ReadSample{{bytes, bytes + elements}, labels[i]}).second);
  }
}

/// Steps of 16×16, of the input's 24×24, and of 32 columns by 24 rows.
PictureOptions options_of_steps() {
  PictureOptions steps = options();
  for (const Size& size : {Size{16, 16}, seen_size, Size{.width = 32, .height = 24}})
    steps.steps.push_back(classification_step("random-resized-crop,flip", size, false));
  return steps;
}

TEST(PictureDataset, HasExtentsThatFollowFromTheStepOnly) {
  const PictureDataset dataset(std::make_shared<PatternSource>(samples), options_of_steps());
  const auto extents = dataset.extents();
  ASSERT_EQ(extents.size(), 3U) << "the input's are among those of steps";
  EXPECT_EQ(extents[0], dataset.tensors());
  EXPECT_EQ(extents[1][0].extent, (std::array<std::int64_t, 3>{3, 16, 16}));
  EXPECT_EQ(extents[2][0].extent, (std::array<std::int64_t, 3>{3, 24, 32}));
  std::array<int, 3> counts{};
  for (std::int64_t step = 0; step < 600; ++step) {
    const std::size_t drawn = dataset.extents_of({.seed = 5, .epoch = 2, .step = step});
    EXPECT_EQ(drawn, dataset.extents_of({.seed = 5, .epoch = 2, .step = step}));
    ++counts.at(drawn);
  }
  for (const int count : counts) EXPECT_NEAR(count, 200, 50);
  const PictureDataset one(std::make_shared<PatternSource>(samples), options());
  EXPECT_EQ(one.extents().size(), 1U);
  EXPECT_EQ(one.extents_of({.step = 7}), 0U);
}

TEST(PictureDataset, BringsASampleToTheExtentsOfItsStepWithAndWithoutACache) {
  const auto source = std::make_shared<PatternSource>(samples);
  PictureOptions cached = options_of_steps();
  cached.cache = cache_of(1 << 20);
  const PictureDataset with_cache(source, cached);
  const PictureDataset dataset(source, options_of_steps());
  for (const PictureDataset* one : {&dataset, &with_cache, &with_cache}) {
    Image picture;
    Annotation annotation;
    EXPECT_TRUE(one->view({.seed = 5, .epoch = 3, .index = 8, .extents = 2}, picture, annotation));
    EXPECT_EQ(picture.width, 32);
    EXPECT_EQ(picture.height, 24);
    Image expected = source->picture_of(8);
    Annotation boxes;
    Image scratch;
    for (const Transform& transform : parse_transforms("random-resized-crop,flip", {.width = 32, .height = 24}))
      transform.apply({.seed = 5, .epoch = 3, .index = 8}, expected, boxes, scratch);
    EXPECT_EQ(picture.pixels, expected.pixels);
  }
}

TEST(PictureDataset, DecodesForTheLargestSizeOfSteps) {
  const std::vector<StepSize> steps = options_of_steps().steps;
  EXPECT_EQ(decoding_text(3, options().transforms), "channels: 3, at least 48 pixels");
  EXPECT_EQ(decoding_text(3, options().transforms, steps), "channels: 3, at least 64 pixels");
  EXPECT_EQ(decoding_text(3, parse_transforms("crop", seen_size), steps), "channels: 3, all pixels");
}

TEST(PictureDataset, HasTheSameBytesOnAnyRanksAndWorkersInAResumedEpochAndWithACache) {
  for (const std::string_view transforms : {"random-resized-crop,flip,color-jitter", "mosaic,affine,hsv,flip"}) {
    const auto source = std::make_shared<PatternSource>(samples);
    std::map<std::int64_t, ReadSample> expected;
    for (std::int64_t index = 0; index < samples; ++index)
      expected[index] = read(PictureDataset(source, options(transforms)), {.seed = 5, .epoch = 3, .index = index});
    const auto whole = cache_of(1 << 20);
    const auto some = cache_of(60'000);
    for (const auto& cache : {std::shared_ptr<PictureCache>(), whole, some}) {
      PictureOptions cached = options(transforms);
      cached.cache = cache;
      const auto dataset = std::make_shared<PictureDataset>(source, cached);
      for (const int ranks : {1, 2, 3}) {
        for (const int workers : {0, 1, 3}) {
          std::map<std::int64_t, ReadSample> found;
          std::map<std::int64_t, ReadSample> rest;
          for (int rank = 0; rank < ranks; ++rank) {
            add_samples(dataset, rank, ranks, workers, 3, 0, found);
            add_samples(dataset, rank, ranks, workers, 3, 4, rest);
          }
          EXPECT_EQ(found, expected) << ranks << " ranks, " << workers << " workers";
          EXPECT_EQ(rest.size(), static_cast<std::size_t>(samples - 4 * batch));
          for (const auto& [index, sample] : rest) EXPECT_EQ(sample, expected.at(index));
        }
      }
    }
    EXPECT_FALSE(whole->is_full());
    EXPECT_TRUE(some->is_full());
  }
}

/// The next good sample takes the place of a bad one in a mosaic, too, whichever thread meets it first.
TEST(PictureDataset, ComposesMosaicsOfGoodSamples) {
  PictureOptions of = options("mosaic,affine");
  const std::set<std::int64_t> bad = {3, 4, 17};
  const PictureDataset strict(std::make_shared<PatternSource>(samples, bad), of);
  of.on_bad_sample = OnBadSample::skip;
  int refused = 0;
  std::map<std::int64_t, ReadSample> expected;
  for (const bool is_reversed : {false, true}) {
    of.bad_samples = std::make_shared<BadSamples>("training");
    const PictureDataset dataset(std::make_shared<PatternSource>(samples, bad), of);
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t index = is_reversed ? samples - 1 - i : i;
      const ReadSample sample = read(dataset, {.index = index});
      if (!is_reversed) expected[index] = sample;
      EXPECT_EQ(sample, expected[index]);
      if (is_reversed || bad.contains(index)) continue;
      try {
        EXPECT_EQ(read(strict, {.index = index}), sample);
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.code(), ErrorCode::corrupt);
        EXPECT_TRUE(error.message().starts_with("picture ")) << error.message();
        EXPECT_NE(error.message().find("is damaged; replace the file"), std::string::npos) << error.message();
      }
    }
    EXPECT_EQ(of.bad_samples->count(), 3);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 20);
}

TEST(PictureDataset, DecodesEachPictureOnceWithACache) {
  const auto source = std::make_shared<PatternSource>(samples);
  PictureOptions cached = options();
  cached.cache = cache_of(1 << 20);
  const PictureDataset first(source, cached);
  const PictureDataset second(source, cached);
  for (std::int64_t epoch = 1; epoch <= 3; ++epoch)
    for (std::int64_t index = 0; index < samples; ++index)
      (void)read(index % 2 == 0 ? first : second, {.epoch = epoch, .index = (index + epoch) % samples});
  EXPECT_EQ(source->decodes, samples);
}

TEST(PictureDataset, NormalizesTheBytesThatItHas) {
  for (const int channels : {1, 3}) {
    PictureOptions of = options("center-crop");
    of.channels = channels;
    if (channels == 1) of.normalization = {.mean = {0.3}, .deviation = {0.7}};
    const PictureDataset dataset(std::make_shared<PatternSource>(samples), of);
    const std::vector<double> table = dataset.bytes_of(0)->table();
    const ReadSample sample = read(dataset, {.index = 7});
    std::vector<float> singles(sample.bytes.size());
    std::vector<double> doubles(sample.bytes.size());
    std::int32_t label = 0;
    dataset.read({.index = 7}, std::array<Buffer, 2>{std::span(singles), label});
    dataset.read({.index = 7}, std::array<Buffer, 2>{std::span(doubles), label});
    EXPECT_EQ(label, 7 % 3);
    for (std::size_t i = 0; i < sample.bytes.size(); ++i) {
      const double expected = table[256 * (i / (24 * 24)) + sample.bytes[i]];
      EXPECT_EQ(doubles[i], expected);
      EXPECT_EQ(singles[i], static_cast<float>(expected));
    }
    Image picture;
    Annotation annotation;
    EXPECT_TRUE(dataset.view({.index = 7}, picture, annotation));
    std::vector<std::uint8_t> planes(picture.pixels.size());
    write_planes(picture, planes.data());
    EXPECT_EQ(planes, sample.bytes);
    EXPECT_EQ(annotation.label, 1);
  }
}

TEST(PictureDataset, StopsAtABadSampleUnlessItIsToldToSkip) {
  const auto source = std::make_shared<PatternSource>(samples, std::set<std::int64_t>{4, 5});
  const PictureDataset dataset(source, options());
  expect_error([&] { (void)read(dataset, {.index = 4}); }, ErrorCode::corrupt, {"picture 4 is damaged"});
  (void)read(dataset, {.index = 6});
}

/// The next good sample takes its place, with what the transforms draw for the bad one.
TEST(PictureDataset, ReplacesBadSamplesInTraining) {
  const auto source = std::make_shared<PatternSource>(samples, std::set<std::int64_t>{4, 5, samples - 1});
  PictureOptions skipping = options();
  skipping.on_bad_sample = OnBadSample::skip;
  skipping.bad_samples = std::make_shared<BadSamples>("training");
  const PictureDataset dataset(source, skipping);
  for (int time = 0; time < 2; ++time) {
    for (const auto& [bad, good] : {std::pair(4, 6), {5, 6}, {static_cast<int>(samples - 1), 0}}) {
      Image expected = source->picture_of(good);
      Annotation annotation = source->annotation(good);
      Image scratch;
      for (const Transform& transform : skipping.transforms)
        transform.apply({.seed = 2, .index = bad}, expected, annotation, scratch);
      std::vector<std::uint8_t> planes(expected.pixels.size());
      write_planes(expected, planes.data());
      EXPECT_EQ(read(dataset, {.seed = 2, .index = bad}), (ReadSample{planes, good % 3})) << bad;
    }
  }
  EXPECT_EQ(skipping.bad_samples->count(), 3);
  EXPECT_NE(skipping.bad_samples->text().find("picture 4"), std::string::npos);
}

TEST(PictureDataset, LeavesBadSamplesOutOfEvaluation) {
  const auto source = std::make_shared<PatternSource>(samples, std::set<std::int64_t>{4});
  PictureOptions skipping = options("center-crop");
  skipping.on_bad_sample = OnBadSample::skip;
  skipping.is_evaluation = true;
  skipping.bad_samples = std::make_shared<BadSamples>("validation");
  const PictureDataset dataset(source, skipping);
  const ReadSample black{std::vector<std::uint8_t>(3 * 24 * 24), -100};
  (void)read(dataset, {.index = 5});  // the memory of a thread holds another picture
  EXPECT_EQ(read(dataset, {.index = 4}), black);
  EXPECT_EQ(read(dataset, {.index = 4}), black);
  EXPECT_EQ(source->decodes, 2) << "a bad sample is decoded once";
  Image picture;
  Annotation annotation;
  EXPECT_FALSE(dataset.view({.index = 4}, picture, annotation));
  EXPECT_EQ(skipping.bad_samples->count(), 1);
}

/// Whether it occurs again is not known, so the result would not be the same again.
TEST(PictureDataset, StopsWhereAPictureCannotBeRead) {
  const auto source = std::make_shared<PatternSource>(samples);
  source->unreadable = 4;
  for (const bool is_evaluation : {false, true}) {
    PictureOptions skipping = options();
    skipping.on_bad_sample = OnBadSample::skip;
    skipping.is_evaluation = is_evaluation;
    expect_error([&] { (void)read(PictureDataset(source, skipping), {.index = 4}); }, ErrorCode::io,
                 {"picture 4 cannot be read"});
  }
}

TEST(PictureDataset, SaysWhichTransformsAreMissing) {
  const PictureDataset dataset(std::make_shared<PatternSource>(samples), options("flip"));
  expect_error([&] { (void)read(dataset, {.index = 8}); }, ErrorCode::invalid_argument,
               {"picture 8 has 41×33 pixels where the network takes 24×24", "random-resized-crop"});
}

TEST(PictureDataset, RefusesWhatCannotWork) {
  const auto source = std::make_shared<PatternSource>(samples);
  const auto refuse = [&](const PictureOptions& of, const std::string& part) {
    expect_error([&] { (void)PictureDataset(source, of); }, ErrorCode::invalid_argument, {"\"pattern\"", part});
  };
  PictureOptions of = options();
  of.channels = 2;
  refuse(of, "2 channels");
  of = options();
  of.normalization.mean.pop_back();
  refuse(of, "2 means and 3 deviations");
  of = options();
  of.input.height = 0;
  refuse(of, "24×0");
  of = options();
  of.cache = cache_of(1000);
  of.first_in_cache = 1;
  refuse(of, "more samples than its cache has places for, 53");
}

TEST(PictureDataset, DescribesItself) {
  const PictureDataset dataset(std::make_shared<PatternSource>(samples), options());
  EXPECT_EQ(dataset.name(), "pattern");
  EXPECT_EQ(dataset.size(), samples);
  EXPECT_EQ(dataset.classes(), 3);
  EXPECT_EQ(decoding_text(3, options().transforms), "channels: 3, at least 48 pixels");
  EXPECT_EQ(decoding_text(1, options("crop").transforms), "channels: 1, all pixels");
  const std::vector<TensorSpec> tensors = dataset.tensors();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].extent, (std::array<std::int64_t, 3>{3, 24, 24}));
  EXPECT_EQ(tensors[1].name, "labels");
}

}  // namespace
}  // namespace lockstep::vision
