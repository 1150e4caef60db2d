// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/pattern_source.hpp"

namespace lockstep::vision {
namespace {

using Samples = std::vector<std::int64_t>;

TEST(GroupsByRatio, HaveInputsOfTheirRatioWithHalfAStrideAround) {
  const std::vector<Size> sizes = {{640, 480}, {480, 640}, {0, 0}, {500, 500}, {1280, 960}, {640, 100}};
  const std::vector<PictureGroup> groups = groups_by_ratio(sizes, {320, 320}, 32);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].size.size, (Size{352, 96})) << "320×50 in three strides";
  EXPECT_EQ(groups[0].samples, (Samples{2, 5})) << "one of an unknown size is in the first group";
  EXPECT_EQ(groups[1].size.size, (Size{352, 256})) << "320×240";
  EXPECT_EQ(groups[1].samples, (Samples{0, 4}));
  EXPECT_EQ(groups[2].size.size, (Size{256, 352}));
  EXPECT_EQ(groups[3].size.size, (Size{352, 352}));
  for (const PictureGroup& group : groups) {
    ASSERT_EQ(group.size.transforms.size(), 1U);
    EXPECT_EQ(needed_side(group.size.transforms), 320) << "as the usual input, so that pictures are decoded alike";
  }
  EXPECT_TRUE(groups_by_ratio(std::vector<Size>(3), {320, 320}, 32).empty());
  const std::vector<Size> wide = {{640, 480}};
  EXPECT_EQ(groups_by_ratio(wide, {.width = 640, .height = 320}, 32).at(0).size.size, (Size{448, 352}));
}

TEST(GroupsByScale, HoldPicturesWholeAtTheTopLeft) {
  const std::vector<Size> sizes = {{100, 64}, {65, 40}, {0, 0}, {50, 50}, {128, 128}};
  const std::vector<PictureGroup> groups = groups_by_scale(sizes, 1, {50, 50}, 32);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].size.size, (Size{50, 50})) << "the size of the input stays as it is";
  EXPECT_EQ(groups[0].samples, (Samples{2, 3})) << "one of an unknown size is in the first group";
  EXPECT_EQ(groups[1].size.size, (Size{96, 64}));
  EXPECT_EQ(groups[2].size.size, (Size{128, 64}));
  EXPECT_EQ(groups[3].size.size, (Size{128, 128}));
  const std::vector<PictureGroup> halves = groups_by_scale(sizes, 0.5, {50, 50}, 32);
  ASSERT_EQ(halves.size(), 3U);
  EXPECT_EQ(halves[0].size.size, (Size{32, 32}));
  EXPECT_EQ(halves[0].samples, (Samples{1, 2, 3}));
  EXPECT_EQ(halves[1].size.size, (Size{64, 32}));
  EXPECT_EQ(halves[2].size.size, (Size{64, 64}));
}

TEST(GroupsByScale, RefuseAPictureThatIsTooLarge) {
  const std::vector<Size> sizes = {{3000, 2000}};
  EXPECT_EQ(groups_by_scale(sizes, 0.5, {512, 512}, 32).at(0).size.size, (Size{1504, 1024}));
  try {
    (void)groups_by_scale(sizes, 1, {512, 512}, 32);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    for (const char* part : {"3000×2000", "scale 1", "--eval-scale"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
  }
}

TEST(GroupsByRatio, AreFew) {
  std::vector<Size> sizes;
  for (int side = 20; side <= 640; side += 3) {
    sizes.push_back({640, side});
    sizes.push_back({side, 640});
  }
  for (const std::size_t most : {1U, 2U, 16U, 100U}) {
    const std::vector<PictureGroup> groups = groups_by_ratio(sizes, {640, 640}, 32, most);
    EXPECT_LE(groups.size(), most);
    EXPECT_GE(groups.size(), std::min<std::size_t>(most, 41) / 2);
    std::set<std::int64_t> seen;
    for (const auto& [size, samples] : groups) {
      EXPECT_EQ(size.size.width % 32, 0);
      EXPECT_EQ(size.size.height % 32, 0);
      EXPECT_LE(std::max(size.size.width, size.size.height), 672);
      for (const std::int64_t sample : samples) {
        seen.insert(sample);
        EXPECT_GE(size.size.width, sizes[static_cast<std::size_t>(sample)].width + 16);
        EXPECT_GE(size.size.height, sizes[static_cast<std::size_t>(sample)].height + 16);
      }
    }
    EXPECT_EQ(seen.size(), sizes.size());
  }
}

TEST(GroupsByRatio, ReadPicturesWithTheInputOfTheirGroup) {
  constexpr std::int64_t count = 12;
  const auto source = std::make_shared<PatternSource>(count);
  std::vector<Size> sizes;  // about those of the pictures, and of every second one turned
  for (std::int64_t i = 0; i < count; ++i) sizes.push_back(i % 2 == 0 ? Size{40, 30} : Size{30, 40});
  const PictureDataset dataset(source, {.name = "pattern",
                                        .input = {64, 64},
                                        .transforms = {letterbox({64, 64})},
                                        .groups = groups_by_ratio(sizes, {64, 64}, 32),
                                        .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}},
                                        .is_evaluation = true});
  EXPECT_EQ(dataset.extents().size(), 1U);
  const auto groups = dataset.evaluation_groups();
  ASSERT_EQ(groups.size(), 2U);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto [channels, height, width] = groups[group].tensors.at(0).extent;
    EXPECT_EQ(height * width, 96 * 64) << "48 of 64 pixels need two strides with the margin";
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(channels * height * width));
    std::int32_t label = 0;
    for (const std::int64_t sample : groups[group].samples) {
      dataset.read({.index = sample, .extents = 1 + group}, std::array<Buffer, 2>{std::span(bytes), label});
      EXPECT_EQ(label, sample % 3);
      EXPECT_EQ(bytes.front(), 114);
      EXPECT_EQ(bytes.back(), 114);
    }
  }
}

}  // namespace
}  // namespace lockstep::vision
