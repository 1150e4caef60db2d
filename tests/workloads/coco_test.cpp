// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "workloads/coco_case.hpp"
#include "workloads/detection/average_precision.hpp"

namespace lockstep::workloads {
namespace {

using nlohmann::json;

void expect_equal(const std::optional<double>& ours, const json& theirs, const std::string& what) {
  ASSERT_EQ(ours.has_value(), !theirs.is_null()) << what;
  if (ours) {
    EXPECT_NEAR(*ours, theirs.get<double>(), 1e-12) << what;
  }
}

/// Compares all metrics with the recorded answers of pycocotools. mpi-scripts/parity/coco.sh --record writes the file,
/// and without --record it compares many more cases.
TEST(Coco, IsEqualToPycocotools) {
  std::ifstream file(LOCKSTEP_COCO_CASES);
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 8U);
  for (const json& one : cases) {
    const std::string name = one.at("name");
    const auto classes = static_cast<std::int64_t>(classes_of(one.at("truth")).size());
    const std::vector<PictureOfClass> pictures = match_files(one.at("truth"), one.at("predictions"));
    const std::vector<observe::MetricValue> values = detection_values(pictures, classes);
    for (const auto& [metric, value] : one.at("pycocotools").items())
      if (!value.is_array()) expect_equal(observe::value_of(values, metric), value, name + ": " + metric);
    const std::vector<ClassScores> scores = class_scores(pictures, classes);
    for (std::size_t label = 0; label < scores.size(); ++label)
      expect_equal(mean_of(scores[label].precision[all_areas]), one.at("pycocotools").at("AP").at(label),
                   name + ": AP of class " + std::to_string(label));
  }
}

TEST(Coco, HasNoValueWithoutBoxes) {
  const json truth = json::parse(R"({"images":[{"id":1}],"categories":[{"id":1}],"annotations":[]})");
  const json predictions = json::parse(R"([{"image_id":1,"category_id":1,"bbox":[0,0,9,9],"score":0.5}])");
  for (const auto& value : detection_values(match_files(truth, predictions), 1))
    EXPECT_FALSE(value.value.has_value()) << value.name;
}

const Rectangle first_box{0, 0, 10, 10};

/// One picture with boxes of class 0.
std::vector<PictureOfClass> picture_of(const std::vector<GroundTruth>& boxes, std::vector<Detection> detections) {
  return match(0, detections, boxes);
}

TEST(Coco, LeavesOutDetectionsOfBoxesThatNeedNotBeFound) {
  const GroundTruth wanted{.box = first_box, .area = 100};
  const GroundTruth difficult{.box = {50, 50, 10, 10}, .area = 100, .is_ignored = true};
  const std::vector<Detection> twice{{0, 0.9, difficult.box}, {0, 0.8, difficult.box}, {0, 0.7, first_box}};
  const auto values = detection_values(picture_of({difficult, wanted}, twice), 1);
  EXPECT_NEAR(observe::value_of(values, "map").value(), 1, 1e-12)
      << "any number of detections may match a difficult box";
  EXPECT_EQ(observe::value_of(values, "precision"), 1);
  EXPECT_EQ(observe::value_of(values, "mar1"), 0) << "they still are the first detections of the picture";
}

TEST(Coco, TakesTheIouWithACrowdFromTheDetectionAlone) {
  const GroundTruth crowd{.box = {0, 0, 100, 100}, .area = 9000, .is_crowd = true};
  const GroundTruth difficult{.box = crowd.box, .area = 10'000, .is_ignored = true};
  const std::vector<Detection> inside{{0, 0.9, first_box}};
  EXPECT_EQ(picture_of({crowd}, inside)[0].detections[0].ignored[all_areas], all_thresholds);
  EXPECT_EQ(picture_of({difficult}, inside)[0].detections[0].ignored[all_areas], 0);
}

TEST(Coco, FindsTheOperatingPointWithTheLargestF1) {
  const std::vector<GroundTruth> boxes{{.box = first_box, .area = 100}, {.box = {50, 0, 10, 10}, .area = 100}};
  const std::vector<Detection> detections{
      {0, 0.9, first_box}, {0, 0.6, {50, 0, 10, 10}}, {0, 0.3, {90, 0, 10, 10}}, {0, 0.2, {90, 50, 10, 10}}};
  const OperatingPoint point = best_operating_point(picture_of(boxes, detections), 2);
  EXPECT_EQ(point.confidence, 0.301) << "the first at which the false detections are gone";
  EXPECT_EQ(point.boxes, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(point.detections, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(point.hits, (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(point.f1, 1) << "the mean over the classes that have boxes";
}

TEST(Coco, ReportsYolov5sVariantUnderItsOwnName) {
  // Two boxes, of which one is found by the first detection, behind which a false one comes: precision 1 up to recall
  // 1/2, and then a line down to 0 at recall 1.
  const std::vector<GroundTruth> boxes{{.box = first_box, .area = 100}, {.box = {50, 0, 10, 10}, .area = 100}};
  const auto values = detection_values(picture_of(boxes, {{0, 0.9, first_box}, {0, 0.6, {90, 0, 10, 10}}}), 1);
  EXPECT_NEAR(observe::value_of(values, "yolov5_map50").value(), 0.5 + 0.25 / 2, 3e-3);
  EXPECT_NEAR(observe::value_of(values, "map50").value(), 51.0 / 101, 1e-12);
}

}  // namespace
}  // namespace lockstep::workloads
