// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/boxes_and_frame.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/errors.hpp"
#include "vision/source/file_source.hpp"
#include "workloads/detection/detection_task.hpp"

namespace lockstep::workloads {
namespace {

constexpr vision::Size square{.width = 320, .height = 320};

vision::Annotation two_boxes() {
  vision::Annotation annotation;
  annotation.boxes = {{.label = 2, .left = 10, .top = 20, .right = 40, .bottom = 30},
                      {.label = 0, .left = 0, .top = 0, .right = 5, .bottom = 320}};
  annotation.frame = {.scale_x = 0.5, .scale_y = -0.25, .left = 3, .top = 7, .width = 640, .height = 480};
  return annotation;
}

TEST(BoxesAndFrame, AreWrittenInPixelsOfTheInput) {
  const auto collate = boxes_and_frame(3);
  const std::vector<TensorSpec> tensors = collate->tensors(square, 4);
  EXPECT_EQ(tensors, (std::vector<TensorSpec>{{"boxes", {5, 1, 3}}, {"frame", {6, 1, 1}}}));
  std::vector<float> boxes(15, 77);
  std::vector<double> frame(6, 77);
  const std::array<Buffer, 2> targets{std::span(boxes), std::span(frame)};
  vision::Annotation annotation = two_boxes();
  annotation.boxes.insert(annotation.boxes.begin() + 1, {.label = 1, .right = 100, .bottom = 100, .is_crowd = true});
  collate->write(annotation, square, targets);
  EXPECT_EQ(boxes, (std::vector<float>{2, 0, -1, 25, 2.5F, 0, 25, 160, 0, 30, 5, 0, 10, 320, 0}));
  EXPECT_EQ(frame, (std::vector<double>{0.5, -0.25, 3, 7, 640, 480}));
  collate->write({}, square, targets);
  EXPECT_EQ(boxes, (std::vector<float>{-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(frame[4], 0) << "a sample that is left out has no frame";
}

TEST(BoxesAndFrame, HaveRoomForTheBoxesOfAMosaic) {
  std::vector<vision::FileSample> samples(3);
  samples[1].annotation = two_boxes();
  samples[2].annotation.boxes.resize(5, {.is_crowd = true});
  const vision::FileSource source("files", {}, {"a", "b", "c"}, samples);
  const vision::FileSource none("files", {}, {"a"}, {});
  const std::array<const vision::Source*, 3> parts = {&source, nullptr, &none};
  EXPECT_EQ(most_boxes(parts), 8);
  EXPECT_EQ(most_boxes(std::span(parts).last(2)), 1);
  EXPECT_EQ(detection().collate({&source})->tensors(square, 3)[0].extent[2], 8);
  EXPECT_EQ(
      detection().collate_of_model({{"images", {3, 320, 320}}, {"boxes", {5, 1, 12}}})->tensors(square, 3)[0].extent[2],
      12);
}

TEST(DetectionTask, TakesMosaicsUnlessTheUserNamesTransforms) {
  const auto texts = [](std::string_view augment) {
    const vision::Pipelines pipelines = detection_pipelines(augment, square, false);
    EXPECT_EQ(vision::text_of(pipelines.evaluation), "letterbox:320");
    EXPECT_TRUE(vision::set_size(pipelines.training));
    return vision::text_of(pipelines.training);
  };
  const std::string affine = "affine:0.5,0.1,0,0";
  EXPECT_EQ(texts(""), "mosaic," + affine + ",hsv:0.015,0.7,0.4,flip");
  EXPECT_EQ(texts("none"), "letterbox:320");
  EXPECT_EQ(texts("hsv,flip"), "letterbox:320,hsv:0.015,0.7,0.4,flip");
  EXPECT_EQ(texts("mosaic:0.5,flip"), "mosaic:0.5," + affine + ",flip");
  EXPECT_EQ(texts("flip,affine"), "letterbox:320,flip," + affine);
  EXPECT_EQ(texts("letterbox,affine"), "letterbox:320," + affine);
  EXPECT_EQ(texts("random-resized-crop"), "random-resized-crop:320");
  const vision::StepSize step = detection().step("", {.width = 256, .height = 256}, false);
  EXPECT_EQ(vision::text_of(step.transforms), "mosaic," + affine + ",hsv:0.015,0.7,0.4,flip,resize:256x256");
}

TEST(DetectionTask, HasInputsOfWholeStrides) {
  const vision::FileSource source("files", {}, {"a"}, {});
  const auto input = [&](int width, int height) {
    return detection().input(source, {.width = width, .height = height}).size;
  };
  EXPECT_EQ(input(0, 0), (vision::Size{640, 640}));
  EXPECT_EQ(input(320, 256), (vision::Size{320, 256}));
  expect_error([&] { (void)input(330, 330); }, ErrorCode::invalid_argument,
               {"330×330", "multiple of 32", "such as 352"});
  expect_error([&] { (void)input(330, 240); }, ErrorCode::invalid_argument, {"240×330", "such as 256x352"});
  const Normalization numbers = detection().normalization(source, 3);
  EXPECT_EQ(numbers.mean, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(numbers.deviation, (std::vector<double>{1, 1, 1}));
  EXPECT_NE(detection().why_not(source), "");
}

}  // namespace
}  // namespace lockstep::workloads
