// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "vision/pattern_source.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {
namespace {

constexpr Size affine_size{.width = 100, .height = 100};

struct AffineSample {
  Image picture;
  Annotation annotation;
};

/// A gray picture of twice the size with a white rectangle in it, and the box of that.
AffineSample with_rectangle(int left, int top, int width, int height) {
  AffineSample sample;
  sample.picture.resize(200, 200, 1);
  std::ranges::fill(sample.picture.pixels, std::uint8_t{114});
  for (int y = top; y < top + height; ++y)
    std::ranges::fill(sample.picture.row(y).subspan(static_cast<std::size_t>(left), static_cast<std::size_t>(width)),
                      std::uint8_t{255});
  sample.annotation.boxes.push_back({.left = static_cast<float>(left),
                                     .top = static_cast<float>(top),
                                     .right = static_cast<float>(left + width),
                                     .bottom = static_cast<float>(top + height)});
  return sample;
}

AffineSample applied(const AffineRange& range, std::int64_t index, AffineSample sample) {
  Image scratch;
  random_affine(affine_size, range).apply({.seed = 2, .index = index}, sample.picture, sample.annotation, scratch);
  EXPECT_EQ(sample.picture.width, affine_size.width);
  EXPECT_EQ(sample.picture.height, affine_size.height);
  return sample;
}

/// The edges of what is brighter than the middle between gray and white, in pixels.
Box bright_part(const Image& picture) {
  Box box{.left = 1000, .top = 1000, .right = -1, .bottom = -1};
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      if (picture.row(y)[static_cast<std::size_t>(x)] < 185) continue;
      box.left = std::min(box.left, static_cast<float>(x));
      box.top = std::min(box.top, static_cast<float>(y));
      box.right = std::max(box.right, static_cast<float>(x + 1));
      box.bottom = std::max(box.bottom, static_cast<float>(y + 1));
    }
  }
  return box;
}

TEST(Affine, MovesBoxesWithThePixels) {
  for (const AffineRange& range : {AffineRange{}, {.scale = 0.3, .translate = 0.2, .degrees = 20, .shear = 15}}) {
    int kept = 0;
    for (std::int64_t index = 0; index < 100; ++index) {
      const AffineSample sample = applied(range, index, with_rectangle(80, 90, 40, 24));
      if (sample.annotation.boxes.empty()) continue;
      ++kept;
      const Box& box = sample.annotation.boxes.front();
      const Box seen = bright_part(sample.picture);
      const float slack = range.degrees > 0 ? 2.5F : 1;  // corners that are turned are darker
      EXPECT_NEAR(box.left, seen.left, slack) << index;
      EXPECT_NEAR(box.top, seen.top, slack) << index;
      EXPECT_NEAR(box.right, seen.right, slack) << index;
      EXPECT_NEAR(box.bottom, seen.bottom, slack) << index;
    }
    EXPECT_GT(kept, 95);
  }
}

TEST(Affine, DrawsScalesAndPlacesFromTheirRanges) {
  double least = 10;
  double most = 0;
  double sum = 0;
  double furthest = 0;
  for (std::int64_t index = 0; index < 400; ++index) {
    const AffineSample sample = applied({}, index, with_rectangle(90, 90, 20, 20));
    const Box& box = sample.annotation.boxes.at(0);
    const double scale = (box.right - box.left) / 20;
    EXPECT_NEAR((box.bottom - box.top) / 20, scale, 1e-5);
    least = std::min(least, scale);
    most = std::max(most, scale);
    sum += scale;
    furthest = std::max<double>(furthest, std::abs((box.left + box.right) / 2 - 50));
  }
  EXPECT_GT(least, 0.4999);
  EXPECT_LT(least, 0.52);
  EXPECT_LT(most, 1.5001);
  EXPECT_GT(most, 1.48);
  EXPECT_NEAR(sum / 400, 1, 0.05);
  EXPECT_GT(furthest, 9.5);
  EXPECT_LT(furthest, 10.0001);
}

/// A quarter of a turn exchanges width and height.
TEST(Affine, TurnsPictures) {
  bool is_turned = false;
  for (std::int64_t index = 0; index < 400; ++index) {
    const AffineSample sample =
        applied({.scale = 0, .translate = 0, .degrees = 180}, index, with_rectangle(80, 95, 40, 10));
    const Box& box = sample.annotation.boxes.at(0);
    const double width = box.right - box.left;
    const double height = box.bottom - box.top;
    // A rectangle of 40×10 that is turned by an angle a has 40·|cos a| + 10·|sin a| columns.
    const double sine = (height * 40 - width * 10) / (40 * 40 - 10 * 10);
    const double cosine = (width * 40 - height * 10) / (40 * 40 - 10 * 10);
    EXPECT_NEAR(sine * sine + cosine * cosine, 1, 1e-5);
    is_turned = is_turned || (width < 12 && height > 39);
  }
  EXPECT_TRUE(is_turned);
}

TEST(Affine, DropsBoxesOfWhichTooLittleIsLeft) {
  const AffineRange none{.scale = 0, .translate = 0};
  const auto kept = [&](float left, float top, float right, float bottom) {
    AffineSample sample = with_rectangle(0, 0, 1, 1);
    sample.annotation.boxes = {{.left = left, .top = top, .right = right, .bottom = bottom}};
    return applied(none, 1, sample).annotation.boxes.size() == 1;
  };  // the result is columns and rows 50 to 149
  EXPECT_TRUE(kept(60, 60, 62.1F, 62.1F));
  EXPECT_FALSE(kept(60, 60, 62, 62.1F)) << "two pixels wide";
  EXPECT_FALSE(kept(60, 60, 62.1F, 62)) << "two pixels high";
  EXPECT_TRUE(kept(28, 60, 52.9F, 70)) << "more than a tenth is left";
  EXPECT_FALSE(kept(0, 60, 55, 70)) << "less than a tenth is left";
  EXPECT_FALSE(kept(20, 60, 45, 70)) << "nothing is left";
  AffineSample wide = with_rectangle(0, 0, 1, 1);
  wide.picture.resize(1000, 1000, 1);
  const auto keeps = [&](float height) {
    wide.annotation.boxes = {{.left = 0, .top = 500, .right = 1000, .bottom = 500 + height}};
    AffineSample sample = wide;
    Image scratch;
    random_affine({1000, 1000}, none).apply({}, sample.picture, sample.annotation, scratch);
    return sample.annotation.boxes.size() == 1;
  };
  EXPECT_TRUE(keeps(10.1F));
  EXPECT_FALSE(keeps(9.9F)) << "a ratio of 100";
}

}  // namespace
}  // namespace lockstep::vision
