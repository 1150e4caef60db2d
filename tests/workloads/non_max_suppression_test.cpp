// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/non_max_suppression.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "workloads/detection/detection_reader.hpp"
#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

/// A box as a model with two classes gives it.
using Numbers = std::array<double, 7>;

template <typename Real>
std::vector<Detection> suppressed_boxes(const std::vector<Numbers>& boxes, const NmsOptions& options) {
  std::vector<Real> outputs(boxes.size() * 7);
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t k = 0; k < 7; ++k) outputs[k * boxes.size() + i] = static_cast<Real>(boxes[i][k]);
  return non_max_suppression(Buffer(std::span(outputs)), 2, options);
}

std::vector<std::int32_t> labels_of(const std::vector<Detection>& detections) {
  std::vector<std::int32_t> labels;
  for (const Detection& one : detections) labels.push_back(one.label);
  return labels;
}

TEST(NonMaxSuppression, SuppressesOverlapsOfOneClassOnly) {
  const std::vector<Numbers> boxes{{50, 50, 20, 20, 0.5, 0.75, 0.25},   // class 0
                                   {50, 50, 20, 20, 1, 0.5, 0.25},      // the same place, better
                                   {50, 50, 20, 20, 0.5, 0.25, 0.625},  // class 1
                                   {90, 50, 20, 20, 0.5, 0.5, 0}};      // elsewhere; not above the confidence
  const std::vector<Detection> detections = suppressed_boxes<float>(boxes, {.confidence = 0.25});
  ASSERT_EQ(labels_of(detections), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(detections[0].score, 0.5);
  EXPECT_EQ(detections[1].score, 0.3125);
  EXPECT_EQ(detections[0].box.x, 40);
  EXPECT_EQ(detections[0].box.bottom(), 60);
  EXPECT_EQ(labels_of(suppressed_boxes<double>(boxes, {.confidence = 0.25})), (std::vector<std::int32_t>{0, 1}));
}

TEST(NonMaxSuppression, KeepsABoxWhoseIouIsTheThreshold) {
  const std::vector<Numbers> boxes{{10, 10, 20, 20, 1, 1, 0}, {10, 15, 20, 10, 1, 0.5, 0}};  // IoU 1/2
  EXPECT_EQ(suppressed_boxes<float>(boxes, {.iou = 0.5}).size(), 2U);
  EXPECT_EQ(suppressed_boxes<float>(boxes, {.iou = 0.499}).size(), 1U);
}

TEST(NonMaxSuppression, GivesABoxSeveralLabelsOnlyWhereThatIsWanted) {
  const std::vector<Numbers> boxes{{10, 10, 20, 20, 1, 0.5, 0.75}};
  EXPECT_EQ(labels_of(suppressed_boxes<float>(boxes, {})), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(labels_of(suppressed_boxes<float>(boxes, validation_nms)), (std::vector<std::int32_t>{1, 0}));
}

TEST(NonMaxSuppression, OrdersEqualScoresByBoxAndClass) {
  std::vector<Numbers> boxes;
  for (int i = 0; i < 50; ++i) boxes.push_back({100.0 * i, 10, 20, 20, 0.5, 0.5, 0.5});
  const std::vector<Detection> detections =
      suppressed_boxes<float>(boxes, {.confidence = 0, .most = 60, .has_several_labels = true});
  ASSERT_EQ(detections.size(), 60U);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    EXPECT_EQ(detections[i].box.x, 100.0 * static_cast<double>(i / 2) - 10);
    EXPECT_EQ(detections[i].label, static_cast<int>(i % 2));
  }
}

TEST(NonMaxSuppression, LooksAtTheBestCandidatesOnly) {
  std::vector<Numbers> boxes;
  for (int i = 0; i < 50; ++i) boxes.push_back({i < 25 ? 0 : 100.0 * i, 0, 20, 20, 1 - 0.01 * i, 1, 0});
  EXPECT_EQ(suppressed_boxes<float>(boxes, {}).size(), 26U);
  EXPECT_EQ(suppressed_boxes<float>(boxes, {.most_candidates = 30}).size(), 6U);
}

TEST(NonMaxSuppression, LeavesOutWhatIsNotFinite) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(
      suppressed_boxes<float>({{nan, 0, 1, 1, 1, 1, 1}, {0, 0, infinity, 1, 1, 1, 1}, {0, 0, 1, 1, nan, 1, 1}}, {})
          .empty());
  EXPECT_TRUE(suppressed_boxes<float>({}, {}).empty());
}

TEST(Frame, BringsBoxesBackIntoTheStoredPicture) {
  // A picture of 200×100 that was halved and padded to 100×100.
  std::array<float, 12> numbers{1, 1, 0, 0, 7, 7, 0.5, 0.5, 0, 25, 200, 100};
  const vision::Frame frame = frame_of(Buffer(std::span(numbers)), 1);
  const Rectangle inside = to_stored({10, 35, 20, 10}, frame);
  EXPECT_EQ(inside.x, 20);
  EXPECT_EQ(inside.y, 20);
  EXPECT_EQ(inside.width, 40);
  EXPECT_EQ(inside.height, 20);
  const Rectangle clipped = to_stored({-10, 0, 200, 50}, frame);
  EXPECT_EQ(clipped.x, 0);
  EXPECT_EQ(clipped.y, 0);
  EXPECT_EQ(clipped.right(), 200);
  EXPECT_EQ(clipped.bottom(), 50);
  EXPECT_EQ(to_stored({0, 0, 50, 20}, frame).area(), 0) << "all of it lies in the padding";
  const Rectangle mirrored = to_stored(
      {10, 35, 20, 10}, {.scale_x = -0.5, .scale_y = 0.5, .left = 100, .top = 25, .width = 200, .height = 100});
  EXPECT_EQ(mirrored.x, 140);
  EXPECT_EQ(mirrored.right(), 180);
  EXPECT_FALSE(is_left_out(frame));
  EXPECT_TRUE(is_left_out(vision::Frame{.width = 0}));
}

}  // namespace
}  // namespace lockstep::workloads
