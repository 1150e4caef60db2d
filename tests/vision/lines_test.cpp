// SPDX-License-Identifier: Apache-2.0
// Pictures of lines of text on their way to a network.
#include <gtest/gtest.h>
#include <zlib.h>

#include <memory>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/image/bilinear.hpp"
#include "vision/pattern_source.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/picture_groups.hpp"
#include "vision/transforms/pipeline.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

using PixelBytes = std::vector<std::uint8_t>;

std::uint32_t checksum_of(const PixelBytes& bytes) {
  return static_cast<std::uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

PixelBytes resized(int width, int height, int channels, const Size& size) {
  Image to;
  resize_bilinear(pattern(width, height, channels), size.width, size.height, to);
  EXPECT_EQ(to.width, size.width);
  return to.pixels;
}

/// The bytes are those of cv2.resize in OpenCV 4.10 and 5.0.
TEST(ResizeBilinear, IsThatOfOpenCv) {
  EXPECT_EQ(resized(5, 4, 1, {9, 3}), (PixelBytes{3,  5,  9,  13, 17, 20, 24, 28, 31, 18, 20, 24, 28, 32,
                                                  35, 39, 43, 46, 32, 34, 38, 42, 46, 50, 54, 58, 60}));
  EXPECT_EQ(
      resized(7, 9, 3, {4, 5}),
      (PixelBytes{8,   93,  178, 20,  105, 190, 32,  117, 202, 45,  130, 215, 28,  113, 198, 40,  125, 210, 52,  137,
                  222, 64,  149, 234, 48,  133, 218, 60,  145, 230, 72,  157, 242, 84,  169, 95,  67,  152, 237, 79,
                  164, 224, 92,  177, 58,  104, 189, 19,  87,  172, 104, 99,  184, 14,  112, 197, 27,  124, 209, 39}));
  EXPECT_EQ(resized(3, 2, 1, {6, 4}),
            (PixelBytes{1, 3, 6, 10, 13, 15, 4, 5, 9, 12, 16, 18, 9, 11, 14, 18, 21, 23, 12, 14, 17, 21, 24, 26}));
  struct Row {
    int width, height, channels;
    Size size;
    std::uint32_t checksum;
  };
  for (const Row& row : {Row{24, 40, 1, {64, 106}, 0xADFB1D07}, Row{18, 26, 3, {64, 92}, 0xFC2CE1C3},
                         Row{100, 30, 3, {213, 64}, 0x79BD8335}, Row{90, 70, 1, {20, 31}, 0x04D83711}})
    EXPECT_EQ(checksum_of(resized(row.width, row.height, row.channels, row.size)), row.checksum) << row.width;
  EXPECT_EQ(resized(8, 8, 1, {4, 4}), (PixelBytes{10, 24, 38, 52, 32, 46, 60, 74, 54, 68, 82, 96, 76, 90, 104, 118}));
}

/// What a data set of lines gives for a sample: the planes of "images".
std::vector<float> planes_of(const PictureDataset& dataset, const data::SampleKey& key, const Size& size) {
  std::vector<float> planes(static_cast<std::size_t>(3 * size.width * size.height), -7);
  std::vector<std::int32_t> label(1);
  const std::vector<Buffer> tensors = {Buffer(std::span(planes)), Buffer(std::span(label))};
  dataset.read(key, tensors);
  return planes;
}

PictureOptions lines(const Size& size, const char* transforms) {
  return {.name = "lines",
          .input = size,
          .transforms = parse_transforms(transforms, size),
          .normalization = {.mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}}};
}

/// Sample 0 has 40×30 pixels, which are 43 columns (rounded up) at 32 rows.
TEST(Lines, AreFollowedByZerosAfterNormalizationInTheOrderOfBlueGreenAndRed) {
  const Size size{.width = 64, .height = 32};
  const PictureDataset dataset(std::make_shared<PatternSource>(4), lines(size, "line"));
  EXPECT_EQ(dataset.bytes_of(0), nullptr) << "no byte stands for 0";
  Image seen;
  Annotation annotation;
  ASSERT_TRUE(dataset.view({}, seen, annotation));
  ASSERT_EQ(seen.width, 43);
  EXPECT_EQ(seen.pixels, resized(40, 30, 3, {43, 32}));
  const std::vector<float> planes = planes_of(dataset, {}, size);
  for (int plane = 0; plane < 3; ++plane)
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 64; ++x) {
        const float value = planes[static_cast<std::size_t>((plane * 32 + y) * 64 + x)];
        const float expected =
            x < 43 ? (static_cast<float>(seen.row(y)[static_cast<std::size_t>(3 * x + 2 - plane)]) / 255 - 0.5F) / 0.5F
                   : 0;
        ASSERT_NEAR(value, expected, 1e-6) << plane << ' ' << x << ' ' << y;
      }
}

TEST(Lines, ThatAreTooWideAreSqueezedUnlessTheirGroupIsWider) {
  const auto source = std::make_shared<PatternSource>(4);
  PictureOptions options = lines({.width = 32, .height = 32}, "line");
  options.groups =
      groups_by_line(std::vector<Size>{{40, 30}, {20, 40}, {0, 0}, {60, 32}}, options.input, LineEnd::zeros);
  const PictureDataset dataset(source, options);
  Image seen;
  Annotation annotation;
  ASSERT_TRUE(dataset.view({.extents = 0}, seen, annotation));
  EXPECT_EQ(seen.width, 32);
  ASSERT_EQ(options.groups.size(), 2U);
  EXPECT_EQ(options.groups[0].size.size, (Size{32, 32}));
  EXPECT_EQ(options.groups[0].samples, (std::vector<std::int64_t>{1, 2})) << "what fits, and what is not known";
  EXPECT_EQ(options.groups[1].size.size, (Size{64, 32}));
  EXPECT_EQ(options.groups[1].samples, (std::vector<std::int64_t>{0, 3}));
  ASSERT_TRUE(dataset.view({.extents = 2}, seen, annotation));
  EXPECT_EQ(seen.width, 43);
}

TEST(Lines, OfEasyOcrAreFollowedByTheirLastColumnInMultiplesOfTheirHeight) {
  const std::vector<Size> sizes = {{40, 30}, {30, 40}, {64, 64}, {65, 64}, {1000, 10}};
  const auto groups = groups_by_line(sizes, {.width = 256, .height = 64}, LineEnd::last_column);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].size.size, (Size{64, 64}));
  EXPECT_EQ(groups[0].samples, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(groups[1].size.size, (Size{128, 64}));
  EXPECT_EQ(groups[1].samples, (std::vector<std::int64_t>{0, 1, 3})) << "of higher ones the other ratio counts";
  EXPECT_EQ(groups[2].size.size, (Size{4096, 64})) << "at most 64 heights";
  const PictureDataset dataset(std::make_shared<PatternSource>(4), lines({.width = 128, .height = 64}, "line-repeat"));
  EXPECT_NE(dataset.bytes_of(0), nullptr);
  Image seen;
  Annotation annotation;
  ASSERT_TRUE(dataset.view({}, seen, annotation));
  ASSERT_EQ(seen.width, 128);
  EXPECT_EQ(width_of_line({40, 30}, 64, LineEnd::last_column), 85) << "rounded down";
  const PixelBytes line = resized(40, 30, 3, {85, 64});
  for (int y = 0; y < 64; ++y)
    for (std::size_t i = 0; i < 3 * 128; ++i) {
      const std::size_t x = std::min<std::size_t>(i / 3, 84);
      ASSERT_EQ(seen.row(y)[i], line[(static_cast<std::size_t>(y) * 85 + x) * 3 + i % 3]) << i << ' ' << y;
    }
}

/// The checksum is that of what OpenCV (64×106 pixels) and then Pillow (39×64) make of the picture.
TEST(Lines, OfEasyOcrThatAreHigherThanWideAreResizedTwice) {
  constexpr int width = 39;
  ASSERT_EQ(width_of_line({24, 40}, 64, LineEnd::last_column), width);
  Image picture = pattern(24, 40, 1);
  Annotation annotation;
  Image scratch;
  fit_line({.width = width, .height = 64}, LineEnd::last_column).apply({}, picture, annotation, scratch);
  ASSERT_EQ(picture.width, width);
  EXPECT_EQ(checksum_of(picture.pixels), 0xF64FF8FDU);
}

TEST(Lines, AreNamedByTransformsThatCanBeReadAgain) {
  for (const char* text : {"line:32x100", "line-repeat:64x256"})
    EXPECT_EQ(text_of(parse_transforms(text, {.width = 8, .height = 8})), text);
  EXPECT_EQ(text_of(parse_transforms("line", {.width = 100, .height = 32})), "line:32x100");
}

TEST(Lines, OfManyWidthsBecomeAtMostSixteenGroups) {
  std::vector<Size> sizes;
  for (int width = 1; width <= 64; ++width) sizes.push_back({.width = 32 * width, .height = 32});
  const auto groups = groups_by_line(sizes, {.width = 100, .height = 32}, LineEnd::zeros);
  EXPECT_LE(groups.size(), 16U);
  std::size_t samples = 0;
  for (const PictureGroup& group : groups) {
    samples += group.samples.size();
    for (const std::int64_t sample : group.samples)
      EXPECT_LE(sizes[static_cast<std::size_t>(sample)].width, group.size.size.width) << "no line is squeezed";
  }
  EXPECT_EQ(samples, sizes.size());
}

}  // namespace
}  // namespace lockstep::vision
