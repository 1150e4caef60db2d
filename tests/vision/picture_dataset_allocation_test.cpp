// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "support/count_allocations.hpp"
#include "vision/pattern_source.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

void expect_no_allocations(std::string_view transforms) {
  constexpr std::int64_t samples = 40;
  constexpr Size input{.width = 24, .height = 24};
  std::string why_not;
  auto file = make_memory_file(PictureCache::file_bytes(samples, {1 << 20}), {}, why_not);
  const PictureDataset dataset(std::make_shared<PatternSource>(samples),
                               {.name = "pattern",
                                .input = input,
                                .transforms = parse_transforms(transforms, input),
                                .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}},
                                .on_bad_sample = OnBadSample::skip,
                                .cache = std::make_shared<PictureCache>(std::move(file), samples)});
  std::vector<float> images(3 * 24 * 24);
  std::int32_t label = 0;
  const std::array<Buffer, 2> tensors{std::span(images), label};
  const auto read_all = [&] {
    for (std::int64_t index = 0; index < samples; ++index) dataset.read({.index = index}, tensors);
  };
  read_all();
  read_all();
  const long before = allocations;
  EXPECT_GT(before, 0);
  read_all();
  EXPECT_EQ(allocations, before);
}

TEST(PictureDatasetAllocation, NothingIsAllocatedOnceAThreadHasReadPicturesFromTheCache) {
  expect_no_allocations("crop,random-resized-crop,flip,color-jitter,letterbox");
  expect_no_allocations("mosaic,affine,hsv,flip");
}

}  // namespace
}  // namespace lockstep::vision
