// SPDX-License-Identifier: Apache-2.0
/// Evaluates boxes as lockstep's metrics do, for mpi-scripts/parity/coco.sh. Standard input is an array of objects with
/// "truth" and "predictions", in the forms of COCO's files; standard output has an object for each, with the value of
/// each metric, and "AP" and "AP50" of each class; null where there is none. For mpi-scripts/parity/nms.sh an object
/// has the "outputs" of a model for one picture, "classes", "confidence", "iou" and "several_labels", and gets an array
/// of detections: class, score, left, top, right, bottom.
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "workloads/coco_case.hpp"
#include "workloads/detection/average_precision.hpp"
#include "workloads/detection/non_max_suppression.hpp"

namespace {

using nlohmann::json;

json number(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json detections_of(const json& one) {
  using namespace lockstep::workloads;
  auto outputs = one.at("outputs").get<std::vector<float>>();
  const NmsOptions options{.confidence = one.at("confidence").get<double>(),
                           .iou = one.at("iou").get<double>(),
                           .has_several_labels = one.at("several_labels").get<bool>()};
  json detections = json::array();
  for (const Detection& found :
       non_max_suppression(lockstep::Buffer(std::span(outputs)), one.at("classes").get<int>(), options))
    detections.push_back({found.label, found.score, found.box.x, found.box.y, found.box.right(), found.box.bottom()});
  return detections;
}

json evaluated(const json& one) {
  using namespace lockstep::workloads;
  if (one.contains("outputs")) return detections_of(one);
  const auto classes = static_cast<std::int64_t>(classes_of(one.at("truth")).size());
  const std::vector<PictureOfClass> pictures = match_files(one.at("truth"), one.at("predictions"));
  json result;
  for (const auto& value : detection_values(pictures, classes)) result[value.name] = number(value.value);
  result["AP"] = json::array();
  result["AP50"] = json::array();
  for (const ClassScores& scores : class_scores(pictures, classes)) {
    const auto& precision = scores.precision[all_areas];
    result["AP"].push_back(number(mean_of(precision)));
    result["AP50"].push_back(precision ? json((*precision)[at_50]) : json(nullptr));
  }
  return result;
}

}  // namespace

int main() {
  json results = json::array();
  for (const json& one : json::parse(std::cin)) results.push_back(evaluated(one));
  std::cout << results.dump() << '\n';
}
