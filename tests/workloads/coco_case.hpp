// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workloads/detection/detection_metrics.hpp"
#include "workloads/detection/matching.hpp"

namespace lockstep::workloads {

/// Returns the class of each category: their ids in ascending order are classes 0, 1, ….
inline std::map<std::int64_t, std::int32_t> classes_of(const nlohmann::json& truth) {
  std::map<std::int64_t, std::int32_t> classes;
  for (const auto& category : truth.at("categories")) classes[category.at("id").get<std::int64_t>()] = 0;
  std::int32_t label = 0;
  for (auto& [id, of_id] : classes) of_id = label++;
  return classes;
}

inline Rectangle rectangle_of(const nlohmann::json& bbox) {
  return {bbox.at(0).get<double>(), bbox.at(1).get<double>(), bbox.at(2).get<double>(), bbox.at(3).get<double>()};
}

/// Matches predictions with annotations that are in the forms of COCO's files, `instances_*.json` and
/// `predictions.json`. @return by ascending image id
inline std::vector<PictureOfClass> match_files(const nlohmann::json& truth, const nlohmann::json& predictions) {
  const std::map<std::int64_t, std::int32_t> classes = classes_of(truth);
  struct Picture {
    std::vector<GroundTruth> boxes;
    std::vector<Detection> detections;
  };
  std::map<std::int64_t, Picture> pictures;
  for (const auto& image : truth.at("images")) pictures[image.at("id").get<std::int64_t>()];
  for (const auto& one : truth.at("annotations"))
    pictures.at(one.at("image_id").get<std::int64_t>())
        .boxes.push_back({.label = classes.at(one.at("category_id").get<std::int64_t>()),
                          .box = rectangle_of(one.at("bbox")),
                          .area = one.at("area").get<double>(),
                          .is_crowd = one.at("iscrowd").get<int>() != 0});
  for (const auto& one : predictions)
    pictures.at(one.at("image_id").get<std::int64_t>())
        .detections.push_back({.label = classes.at(one.at("category_id").get<std::int64_t>()),
                               .score = one.at("score").get<double>(),
                               .box = rectangle_of(one.at("bbox"))});
  std::vector<PictureOfClass> matched;
  for (const auto& [id, picture] : pictures)
    for (PictureOfClass& one : match(id, picture.detections, picture.boxes)) matched.push_back(std::move(one));
  return matched;
}

}  // namespace lockstep::workloads
