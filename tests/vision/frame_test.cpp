// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "vision/pattern_source.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

/// Where the frame says that a box of the stored picture lies.
Box placed(const Box& stored, const Frame& frame) {
  const auto x = [&](float edge) { return static_cast<float>(frame.scale_x * edge + frame.left); };
  const auto y = [&](float edge) { return static_cast<float>(frame.scale_y * edge + frame.top); };
  return {.left = std::min(x(stored.left), x(stored.right)),
          .top = y(stored.top),
          .right = std::max(x(stored.left), x(stored.right)),
          .bottom = y(stored.bottom)};
}

TEST(Frame, SaysWhereTheStoredPictureLies) {
  const Box stored{.left = 40, .top = 30, .right = 60, .bottom = 50};
  for (const char* transforms :
       {"none", "resize:50", "resize:90x40", "letterbox", "letterbox:70x200,flip", "center-crop:64", "crop:5,flip",
        "random-resized-crop,flip", "letterbox,affine:0.5,0.1", "flip,letterbox,resize:32x32,color-jitter"}) {
    int checked = 0;
    for (std::int64_t index = 0; index < 20; ++index) {
      Image picture = pattern(100, 80);
      Annotation annotation{.boxes = {stored}, .frame = {.width = 100, .height = 80}};
      Image scratch;
      for (const Transform& transform : parse_transforms(transforms, {64, 64}))
        transform.apply({.index = index}, picture, annotation, scratch);
      EXPECT_EQ(annotation.frame.width, 100);
      EXPECT_EQ(annotation.frame.height, 80);
      if (annotation.boxes.empty()) continue;
      const Box& box = annotation.boxes.front();
      const bool is_cut = box.left == 0 || box.top == 0 || box.right == static_cast<float>(picture.width) ||
                          box.bottom == static_cast<float>(picture.height);
      if (is_cut) continue;
      ++checked;
      const Box expected = placed(stored, annotation.frame);
      EXPECT_NEAR(box.left, expected.left, 1e-4) << transforms;
      EXPECT_NEAR(box.top, expected.top, 1e-4) << transforms;
      EXPECT_NEAR(box.right, expected.right, 1e-4) << transforms;
      EXPECT_NEAR(box.bottom, expected.bottom, 1e-4) << transforms;
    }
    EXPECT_GT(checked, 5) << transforms;
  }
}

TEST(Frame, OfATurnedPictureIsNone) {
  Image picture = pattern(100, 80);
  Annotation annotation{.frame = {.width = 100, .height = 80}};
  Image scratch;
  random_affine({64, 64}, {.degrees = 10}).apply({}, picture, annotation, scratch);
  EXPECT_EQ(annotation.frame.width, 0);
}

TEST(Frame, OfALetterboxWithAMarginIsInTheMiddle) {
  Image picture = pattern(40, 30);
  Annotation annotation{.frame = {.width = 40, .height = 30}};
  Image scratch;
  letterbox({.width = 96, .height = 64}, {.width = 80, .height = 80}).apply({}, picture, annotation, scratch);
  EXPECT_EQ(picture.width, 96);
  EXPECT_EQ(picture.height, 64);
  EXPECT_EQ(annotation.frame.scale_x, 2);
  EXPECT_EQ(annotation.frame.left, 8);
  EXPECT_EQ(annotation.frame.top, 2);
}

}  // namespace
}  // namespace lockstep::vision
