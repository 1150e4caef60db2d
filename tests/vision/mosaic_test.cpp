// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "vision/pattern_source.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

constexpr Size mosaic_quarter{.width = 64, .height = 64};
constexpr int canvas_gray = 114;

/// Pictures of one color each, with a box around their middle half and one at their upper left corner, whose label is
/// that of the picture.
class PlainSamples final : public Samples {
 public:
  [[nodiscard]] std::int64_t size() const override { return 40; }
  LoadedSample load(std::int64_t sample) override {
    ++loads;
    make(sample, picture_, annotation_);
    return {&picture_, &annotation_};
  }
  static void make(std::int64_t sample, Image& picture, Annotation& annotation) {
    const bool is_high = sample % 2 == 1;
    picture.resize(is_high ? 40 : 80, is_high ? 100 : 60, 3);
    std::ranges::fill(picture.pixels, color_of(sample));
    const auto width = static_cast<float>(picture.width);
    const auto height = static_cast<float>(picture.height);
    const auto label = static_cast<std::int32_t>(sample);
    annotation = {};
    annotation.frame = {.width = picture.width, .height = picture.height};
    annotation.boxes = {
        {.label = label, .left = width / 4, .top = height / 4, .right = width * 3 / 4, .bottom = height * 3 / 4},
        {.label = label, .left = 0, .top = 0, .right = 10, .bottom = 10}};
  }
  static std::uint8_t color_of(std::int64_t sample) { return static_cast<std::uint8_t>(120 + sample); }

  int loads = 0;

 private:
  Image picture_;
  Annotation annotation_;
};

struct Composed {
  Image picture;
  Annotation annotation;
  int loads = 0;
};

Composed compose(const Transform& transform, const data::SampleKey& key, const Transform* next = nullptr) {
  Composed composed;
  PlainSamples samples;
  PlainSamples::make(key.index, composed.picture, composed.annotation);
  Image scratch;
  transform.compose(key, samples, next, composed.picture, composed.annotation, scratch);
  composed.loads = samples.loads;
  return composed;
}

TEST(Mosaic, PutsFourPicturesAroundAPoint) {
  std::set<int> x_of_corners;
  std::map<int, int> own_quarters;
  std::set<std::int32_t> partners;
  for (std::int64_t epoch = 1; epoch <= 200; ++epoch) {
    const data::SampleKey key{.seed = 3, .epoch = epoch, .index = 8};
    const auto [picture, annotation, loads] = compose(mosaic(mosaic_quarter, 1), key);
    ASSERT_EQ(picture.width, 128);
    ASSERT_EQ(picture.height, 128);
    EXPECT_EQ(loads, 3);
    EXPECT_EQ(annotation.frame.width, 0);
    // Boxes lie on the color of their picture.
    std::set<std::int32_t> labels;
    for (const Box& box : annotation.boxes) {
      labels.insert(box.label);
      ASSERT_LT(box.left, box.right);
      ASSERT_LT(box.top, box.bottom);
      ASSERT_GE(box.left, 0);
      ASSERT_LE(box.bottom, 128);
      for (const float y : {box.top + 0.01F, box.bottom - 0.01F})
        for (const float x : {box.left + 0.01F, box.right - 0.01F})
          ASSERT_EQ(picture.row(static_cast<int>(y))[3 * static_cast<std::size_t>(x)],
                    PlainSamples::color_of(box.label));
    }
    EXPECT_TRUE(labels.contains(8));
    partners.insert(labels.begin(), labels.end());
    const auto at = [&picture = picture](int x, int y) { return picture.row(y)[3 * static_cast<std::size_t>(x)]; };
    for (int y = 32; y < 96; ++y) {
      for (int x = 32; x < 96; ++x) {
        const bool is_inside = at(x - 1, y - 1) != canvas_gray && at(x, y) != canvas_gray &&
                               at(x, y - 1) != canvas_gray && at(x - 1, y) != canvas_gray;
        if (is_inside && at(x, y) != at(x - 1, y) && at(x, y) != at(x, y - 1)) x_of_corners.insert(x);
      }
    }
    const auto own = PlainSamples::color_of(8);
    for (int i = 0; i < 4; ++i)
      own_quarters[i] += picture.row(i / 2 == 0 ? 28 : 100)[3 * (i % 2 == 0 ? 28U : 100U)] == own ? 1 : 0;
  }
  EXPECT_GE(*x_of_corners.begin(), 32);
  EXPECT_LT(*x_of_corners.rbegin(), 96);
  EXPECT_GT(x_of_corners.size(), 40U);
  for (int i = 0; i < 4; ++i) EXPECT_GT(own_quarters[i], 20) << "the sample lies in each quarter";
  EXPECT_EQ(partners.size(), 40U) << "every sample may be a partner";
}

/// The boxes of the picture at the upper left corner: its lower right corner is at the point.
TEST(Mosaic, ResizesPicturesToTheLongerSideAndCutsThemAtTheCanvas) {
  int cut = 0;
  for (std::int64_t epoch = 1; epoch <= 100; ++epoch) {
    const Composed composed = compose(mosaic(mosaic_quarter, 1), {.seed = 4, .epoch = epoch, .index = 2});
    for (const Box& box : composed.annotation.boxes) {
      const bool is_corner = box.label % 2 == 0 ? box.right - box.left <= 8.001F : box.right - box.left <= 6.501F;
      const float scale = box.label % 2 == 0 ? 0.8F : 0.64F;  // 80×60 becomes 64×48, and 40×100 26×64
      if (is_corner) continue;
      const float width = box.label % 2 == 0 ? 40 * scale : 20.0F * 26 / 40;
      const float height = box.label % 2 == 0 ? 30 * scale : 50 * scale;
      EXPECT_LE(box.right - box.left, width + 0.001F);
      EXPECT_LE(box.bottom - box.top, height + 0.001F);
      const bool is_whole = box.right - box.left > width - 0.001F && box.bottom - box.top > height - 0.001F;
      if (is_whole) continue;
      ++cut;
      EXPECT_TRUE(box.left == 0 || box.top == 0 || box.right == 128 || box.bottom == 128);
    }
  }
  EXPECT_GT(cut, 0);
}

TEST(Mosaic, IsLetterboxedWhereItIsNotDrawn) {
  int single = 0;
  for (std::int64_t index = 0; index < 40; ++index) {
    const Composed composed = compose(mosaic(mosaic_quarter, 0.5), {.seed = 5, .index = index});
    if (composed.picture.width == 128) continue;
    ++single;
    Image picture;
    Annotation annotation;
    PlainSamples::make(index, picture, annotation);
    Image scratch;
    letterbox(mosaic_quarter).apply({}, picture, annotation, scratch);
    EXPECT_EQ(composed.picture.pixels, picture.pixels);
    EXPECT_EQ(composed.loads, 0);
    EXPECT_EQ(composed.annotation.frame.width, annotation.frame.width);
  }
  EXPECT_GT(single, 8);
  EXPECT_LT(single, 32);
}

bool are_same_boxes(const std::vector<Box>& a, const std::vector<Box>& b) {
  return std::ranges::equal(a, b, [](const Box& x, const Box& y) {
    return x.label == y.label && x.left == y.left && x.top == y.top && x.right == y.right && x.bottom == y.bottom;
  });
}

/// Only what the affine transform looks at is composed, and it sees no difference.
TEST(Mosaic, ComposesOnlyWhatIsSeen) {
  int loads = 0;
  for (const AffineRange& range :
       {AffineRange{}, {.scale = 0.9, .translate = 0.3}, {.scale = 0.5, .degrees = 30, .shear = 10}}) {
    const Transform first = mosaic(mosaic_quarter, 1);
    const Transform second = random_affine(mosaic_quarter, range);
    for (std::int64_t index = 0; index < 40; ++index) {
      const data::SampleKey key{.seed = 6, .index = index};
      Composed part = compose(first, key, &second);
      Composed whole = compose(first, key);
      loads += part.loads;
      Image scratch;
      second.apply(key, part.picture, part.annotation, scratch);
      second.apply(key, whole.picture, whole.annotation, scratch);
      ASSERT_EQ(part.picture.pixels, whole.picture.pixels) << index;
      ASSERT_TRUE(are_same_boxes(part.annotation.boxes, whole.annotation.boxes)) << index;
    }
  }
  EXPECT_LT(loads, 3 * 3 * 40 - 20);
}

}  // namespace
}  // namespace lockstep::vision
