// SPDX-License-Identifier: Apache-2.0
#include "vision/transforms/transforms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/data/augment.hpp"
#include "lockstep/data/images.hpp"
#include "support/errors.hpp"
#include "vision/pattern_source.hpp"
#include "vision/planes.hpp"
#include "vision/transforms/geometry.hpp"

namespace lockstep::vision {
namespace {

struct Changed {
  Image picture;
  Annotation annotation;
};

Changed apply(const Transform& transform, Image picture, const data::SampleKey& key = {}, std::vector<Box> boxes = {}) {
  Changed sample{.picture = std::move(picture), .annotation = {.label = 5, .boxes = std::move(boxes)}};
  Image scratch;
  transform.apply(key, sample.picture, sample.annotation, scratch);
  EXPECT_EQ(sample.annotation.label, 5);
  EXPECT_EQ(sample.picture.pixels.size(), sample.picture.row_bytes() * static_cast<std::size_t>(sample.picture.height));
  return sample;
}

std::array<float, 4> edges(const Box& box) { return {box.left, box.top, box.right, box.bottom}; }

/// The pictures of CIFAR-10 must stay the same for runs that are resumed with transforms in place of data::augmented().
TEST(Transforms, CropAndFlipGiveThePicturesOfTheAugmentedDataSet) {
  constexpr std::int64_t samples = 200;
  data::Images images{.name = "pattern", .shape = {3, 13, 17}, .classes = 1};
  std::vector<Image> pictures;
  for (int i = 0; i < samples; ++i) {
    pictures.push_back(pattern(17, 13, 3, i));
    std::vector<std::uint8_t> planes(pictures.back().pixels.size());
    write_planes(pictures.back(), planes.data());
    images.images.insert(images.images.end(), planes.begin(), planes.end());
    images.labels.push_back(0);
  }
  const auto normalization = data::measure_normalization(images);
  const auto plain = std::make_shared<data::ImageDataset>(std::move(images), normalization);
  for (const data::Augmentation& augmentation :
       {data::Augmentation{.crop = true, .flip = true}, {.crop = true}, {.flip = true}}) {
    const auto augmented = data::augmented(plain, augmentation);
    for (std::int64_t index = 0; index < samples; ++index) {
      const data::SampleKey key{.seed = 7, .epoch = 1 + index % 3, .index = index};
      std::vector<std::uint8_t> expected(3 * 13 * 17);
      std::int32_t label = 0;
      augmented->read(key, std::array<Buffer, 2>{std::span(expected), label});
      Image picture = pictures[static_cast<std::size_t>(index)];
      if (augmentation.crop) picture = apply(pad_and_crop(4), picture, key).picture;
      if (augmentation.flip) picture = apply(random_flip(), picture, key).picture;
      std::vector<std::uint8_t> planes(picture.pixels.size());
      write_planes(picture, planes.data());
      ASSERT_EQ(planes, expected) << augmentation.text() << ' ' << index;
    }
  }
}

TEST(Transforms, CropMovesBoxesWithThePixels) {
  for (std::int64_t index = 0; index < 50; ++index) {
    // The only pixel of this value is the first of the box.
    Image picture = pattern(30, 30, 1);
    for (std::uint8_t& pixel : picture.pixels) pixel = static_cast<std::uint8_t>(1 + pixel % 200);
    picture.row(10)[12] = 250;
    const Changed sample =
        apply(pad_and_crop(4), picture, {.index = index}, {{.left = 12, .top = 10, .right = 20, .bottom = 16}});
    ASSERT_EQ(sample.annotation.boxes.size(), 1U);
    const Box& box = sample.annotation.boxes[0];
    EXPECT_EQ(sample.picture.row(static_cast<int>(box.top))[static_cast<std::size_t>(box.left)], 250);
    EXPECT_EQ(box.right - box.left, 8);
    EXPECT_EQ(box.bottom - box.top, 6);
  }
}

TEST(Transforms, FlipMirrorsPicturesAndBoxes) {
  int flipped = 0;
  for (std::int64_t index = 0; index < 100; ++index) {
    const Image picture = pattern(20, 8);
    const Changed sample =
        apply(random_flip(), picture, {.index = index}, {{.left = 1, .top = 2, .right = 6, .bottom = 7}});
    const bool is_flipped = sample.picture.pixels != picture.pixels;
    flipped += is_flipped ? 1 : 0;
    EXPECT_EQ(edges(sample.annotation.boxes.at(0)),
              is_flipped ? (std::array<float, 4>{14, 2, 19, 7}) : (std::array<float, 4>{1, 2, 6, 7}));
    for (int y = 0; y < 8 && is_flipped; ++y)
      for (int x = 0; x < 20; ++x)
        for (int channel = 0; channel < 3; ++channel)
          ASSERT_EQ(sample.picture.row(y)[static_cast<std::size_t>(3 * x + channel)],
                    picture.row(y)[static_cast<std::size_t>(3 * (19 - x) + channel)]);
  }
  EXPECT_GT(flipped, 30);
  EXPECT_LT(flipped, 70);
}

TEST(Transforms, BoxesAreClippedAndDroppedWhereLittleOfThemIsLeft) {
  const auto moved = [](Box box) {
    Annotation annotation{.boxes = {box}};
    move_boxes_into(10, 10, 20, 20, annotation);
    return annotation.boxes;
  };
  EXPECT_EQ(edges(moved({.left = 12, .top = 14, .right = 20, .bottom = 22}).at(0)),
            (std::array<float, 4>{2, 4, 10, 12}));
  EXPECT_EQ(edges(moved({.left = 0, .top = 0, .right = 40, .bottom = 40}).at(0)), (std::array<float, 4>{0, 0, 20, 20}));
  EXPECT_EQ(moved({.left = 0, .top = 12, .right = 12, .bottom = 22}).size(), 1U) << "two of twelve columns are left";
  EXPECT_TRUE(moved({.left = 0, .top = 12, .right = 11.5F, .bottom = 22}).empty()) << "less than two pixels are left";
  EXPECT_TRUE(moved({.left = -20, .top = 12, .right = 12.5F, .bottom = 22}).empty()) << "less than a tenth is left";
  EXPECT_TRUE(moved({.left = 31, .top = 12, .right = 40, .bottom = 22}).empty()) << "it lies outside";
}

/// Sizes as torchvision's Resize and CenterCrop compute them.
TEST(Transforms, RandomScaleDrawsFactorsFromItsWholeRange) {
  const Transform scale = random_scale(0.125, 1.5);
  const Image picture = pattern(80, 64);
  double least = 2;
  double most = 0;
  double sum = 0;
  constexpr int draws = 1000;
  for (int i = 0; i < draws; ++i) {
    const Changed changed =
        apply(scale, picture, {.seed = 1, .epoch = 1, .index = i}, {{.left = 8, .top = 16, .right = 40, .bottom = 32}});
    const double factor = changed.picture.width / 80.0;
    EXPECT_NEAR(changed.picture.height / 64.0, factor, 1.0 / 64) << "both sides have one factor";
    for (const Box& box : changed.annotation.boxes) EXPECT_NEAR(box.right, 40 * factor, 0.5);
    least = std::min(least, factor);
    most = std::max(most, factor);
    sum += factor;
  }
  EXPECT_GE(least, 0.125);
  EXPECT_LT(least, 0.15);
  EXPECT_LE(most, 1.5);
  EXPECT_GT(most, 1.47);
  EXPECT_NEAR(sum / draws, (0.125 + 1.5) / 2, 0.04);
}

TEST(Transforms, ResizeTheShorterSideAsTorchvision) {
  const auto size_of = [](int width, int height, int side) {
    const Image picture = apply(resize_shorter_side(side), pattern(width, height, 1)).picture;
    return Size{picture.width, picture.height};
  };
  EXPECT_EQ(size_of(500, 375, 256), (Size{341, 256}));
  EXPECT_EQ(size_of(375, 500, 256), (Size{256, 341}));
  EXPECT_EQ(size_of(100, 100, 37), (Size{37, 37}));
  EXPECT_EQ(size_of(30, 33, 64), (Size{64, 70}));
  const Image same = pattern(48, 32);
  EXPECT_EQ(apply(resize_shorter_side(32), same).picture.pixels, same.pixels);
  const Changed sample =
      apply(resize_to({20, 40}), pattern(40, 20), {}, {{.left = 4, .top = 6, .right = 8, .bottom = 10}});
  EXPECT_EQ(edges(sample.annotation.boxes.at(0)), (std::array<float, 4>{2, 12, 4, 20}));
  expect_error([] { (void)apply(resize_shorter_side(256), pattern(1, 60'000, 1)); }, ErrorCode::corrupt,
               {"1×60000", "too long and thin"});
}

TEST(Transforms, CenterCropCutsOrSurroundsAsTorchvision) {
  const Image picture = pattern(11, 9, 1);
  const Image cut = apply(center_crop({6, 4}), picture).picture;
  ASSERT_EQ(cut.width, 6);
  ASSERT_EQ(cut.height, 4);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x)  // halves are rounded to even: 2.5 to 2
      EXPECT_EQ(cut.row(y)[static_cast<std::size_t>(x)], picture.row(y + 2)[static_cast<std::size_t>(x + 2)]);
  const Image surrounded = apply(center_crop({12, 14}), picture).picture;
  for (int y = 0; y < 14; ++y) {
    for (int x = 0; x < 12; ++x) {
      const bool is_inside = x < 11 && y >= 2 && y < 11;
      EXPECT_EQ(surrounded.row(y)[static_cast<std::size_t>(x)],
                is_inside ? picture.row(y - 2)[static_cast<std::size_t>(x)] : 0);
    }
  }
}

TEST(Transforms, LetterboxKeepsTheRatioAndFillsWithGray) {
  const Changed sample =
      apply(letterbox({64, 64}), pattern(32, 16), {}, {{.left = 8, .top = 4, .right = 16, .bottom = 12}});
  const Image& picture = sample.picture;
  EXPECT_EQ((Size{picture.width, picture.height}), (Size{64, 64}));
  for (const int y : {0, 15, 48, 63})
    for (const std::uint8_t byte : picture.row(y)) EXPECT_EQ(byte, 114) << "row " << y;
  EXPECT_NE(picture.row(16)[0], 114);
  EXPECT_EQ(edges(sample.annotation.boxes.at(0)), (std::array<float, 4>{16, 24, 32, 40}));
  EXPECT_EQ(apply(letterbox({64, 32}), pattern(32, 16)).picture.height, 32);
}

/// Boxes in a grid show by how much a part has grown in both directions, and so how large it was.
TEST(Transforms, RandomResizedCropTakesPartsOfTheAreasAndRatiosOfTorchvision) {
  constexpr float width = 400;
  constexpr float height = 300;
  constexpr int samples = 2000;
  double area_sum = 0;
  double log_ratio_sum = 0;
  int outside = 0;
  for (std::int64_t index = 0; index < samples; ++index) {
    std::vector<Box> boxes;
    for (float top = 0; top < height; top += 20)
      for (float left = 0; left < width; left += 20)
        boxes.push_back({.left = left, .top = top, .right = left + 20, .bottom = top + 20});
    const Changed sample =
        apply(random_resized_crop({32, 32}), pattern(400, 300, 1), {.seed = 3, .index = index}, boxes);
    ASSERT_EQ((Size{sample.picture.width, sample.picture.height}), (Size{32, 32}));
    float covered = 0;  // boxes tile the picture, except for slivers at the edges
    float columns = 0;
    float rows = 0;
    for (const Box& box : sample.annotation.boxes) {
      if (box.left < 0 || box.top < 0 || box.right > 32.001F || box.bottom > 32.001F) ++outside;
      covered += (box.right - box.left) * (box.bottom - box.top);
      if (box.left > 0 && box.right < 31.9F) columns = box.right - box.left;
      if (box.top > 0 && box.bottom < 31.9F) rows = box.bottom - box.top;
    }
    EXPECT_GT(covered, 0.5F * 32 * 32);
    ASSERT_GT(columns * rows, 0);
    const double part_width = 32.0 * 20 / columns;
    const double part_height = 32.0 * 20 / rows;
    const double area = part_width * part_height / (width * height);
    const double ratio = part_width / part_height;
    EXPECT_GT(area, 0.079);
    EXPECT_LT(area, 1.001);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
    area_sum += area;
    log_ratio_sum += std::log(ratio);
  }
  EXPECT_EQ(outside, 0);
  // Parts that do not fit are drawn again, and most large ones do not: with L = ln(4/3), u = ln(ratio) in −L … L and
  // areas in 0.08 … 3/4·exp(u), the mean area is 0.432, and the mean of u is 0.030. Deviations of means are 0.005.
  EXPECT_NEAR(area_sum / samples, 0.432, 0.02);
  EXPECT_NEAR(log_ratio_sum / samples, 0.030, 0.02);
}

/// No part with a ratio up to 4/3 fits into a stripe.
TEST(Transforms, RandomResizedCropOfAStripeIsItsMiddle) {
  Image stripe = pattern(400, 12, 1);
  const Changed sample = apply(random_resized_crop({16, 12}), stripe);
  Image middle;
  Annotation none;
  Image scratch;
  cut_out({192, 0, 16, 12}, 0, stripe, none, scratch);
  EXPECT_EQ(sample.picture.pixels, stripe.pixels);
}

TEST(Transforms, ColorJitterChangesColorsWithinItsBounds) {
  Image even;
  even.resize(8, 8, 3);
  for (std::uint8_t& byte : even.pixels) byte = 100;
  std::map<std::vector<std::uint8_t>, int> seen;
  for (std::int64_t index = 0; index < 100; ++index) {
    const Image picture =
        apply(color_jitter({.brightness = 0.2, .contrast = 0, .saturation = 0, .hue = 0}), even, {.index = index})
            .picture;
    for (const std::uint8_t byte : picture.pixels) {
      EXPECT_GE(byte, 79);
      EXPECT_LE(byte, 120);
    }
    ++seen[picture.pixels];
    // What is drawn for the brightness does not depend on the other properties, which leave gray as it is.
    EXPECT_EQ(
        apply(color_jitter({.brightness = 0.2, .contrast = 0, .saturation = 0.4, .hue = 0.1}), even, {.index = index})
            .picture.pixels,
        picture.pixels);
  }
  EXPECT_GT(seen.size(), 20U);
  const Image colors = pattern(8, 8);
  EXPECT_EQ(apply(color_jitter({.brightness = 0, .contrast = 0, .saturation = 0, .hue = 0}), colors).picture.pixels,
            colors.pixels);
  EXPECT_NE(apply(color_jitter({}), colors).picture.pixels, colors.pixels);
  (void)apply(color_jitter({}), pattern(8, 8, 1));
}

/// A transform that draws from the numbers of another would change with it.
TEST(Transforms, DrawFromTheKeyAndFromNumbersOfTheirOwn) {
  const Image picture = pattern(60, 50);
  for (const Transform& transform : {pad_and_crop(4), random_flip(), random_resized_crop({24, 24}), color_jitter({}),
                                     random_scale(0.5, 2), random_crop({24, 24})}) {
    const auto pixels = [&](const data::SampleKey& key) { return apply(transform, picture, key).picture.pixels; };
    std::map<std::vector<std::uint8_t>, int> seen;
    for (std::int64_t index = 0; index < 20; ++index) {
      EXPECT_EQ(pixels({.seed = 2, .epoch = 3, .index = index}), pixels({.seed = 2, .epoch = 3, .index = index}));
      for (const data::SampleKey& key : {data::SampleKey{2, 3, index}, {2, 4, index}, {5, 3, index}})
        ++seen[pixels(key)];
    }
    EXPECT_GT(seen.size(), transform.text == "flip" ? 1U : 25U) << transform.text;
  }
}

}  // namespace
}  // namespace lockstep::vision
