// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "workloads/detection/coco_rules.hpp"
#include "workloads/detection/matching.hpp"

namespace lockstep::workloads {

/// The numbers of detections of a class in a picture that COCO's recall is given for.
inline constexpr std::array<std::int64_t, 3> detection_limits{1, 10, most_of_class};
inline constexpr std::size_t at_100 = 2;  ///< index of the last one

/// The scores of one class, by range of areas; nothing where the class has no box that should be found.
struct ClassScores {
  using ByArea = std::array<std::optional<ByThreshold>, area_ranges.size()>;

  std::int64_t pictures = 0;  ///< with boxes of the class that should be found
  std::int64_t boxes = 0;     ///< that should be found
  /// COCO's average precision: the mean of the precision at 101 recalls, each the largest one with at least this
  /// recall, or 0.
  ByArea precision;
  /// The part of the boxes that is found with at most so many detections of a picture; of ranges of areas, for 100
  /// only.
  std::array<ByArea, detection_limits.size()> recall;
  /// Average precision as YOLOv5 reports it: the area below the precision, made monotone and interpolated linearly at
  /// 101 recalls, by the trapezoidal rule, of detections that are matched by its rule.
  std::optional<ByThreshold> yolov5_precision;
};

/// Scores of each class that the pictures name, by label from 0 to `classes` − 1. Bits depend on the pictures only.
/// @param pictures  in ascending order of `PictureOfClass::picture`; of equal scores, those of earlier pictures come
///                  first
/// @cost O(detections · log(detections) + 40 · detections)
std::vector<ClassScores> class_scores(std::span<const PictureOfClass> pictures, std::int64_t classes);

/// Returns the mean over the classes that have a value; nothing if none has. @param value_of  returns an optional
template <typename ValueOf>
std::optional<double> mean_over_classes(std::span<const ClassScores> classes, const ValueOf& value_of) {
  double sum = 0;
  std::int64_t count = 0;
  for (const ClassScores& one : classes) {
    const std::optional<double> value = value_of(one);
    sum += value.value_or(0);
    count += value ? 1 : 0;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

/// The mean over all thresholds; nothing if there is no value.
std::optional<double> mean_of(const std::optional<ByThreshold>& values);

/// Where detections are cut off by their confidence, and what is right among those that remain, at IoU 0.5.
struct OperatingPoint {
  double confidence = 0;                 ///< the least score of the detections that count
  std::vector<std::int64_t> boxes;       ///< by class, that should be found
  std::vector<std::int64_t> detections;  ///< by class, without ignored ones
  std::vector<std::int64_t> hits;        ///< by class, boxes that were found
  // Means over the classes that have boxes; without detections the precision is 0.
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

/// Returns the operating point at the confidence, of 0, 0.001 … 1, with the largest mean F1; of equal ones the first.
/// @param pictures  in any order
OperatingPoint best_operating_point(std::span<const PictureOfClass> pictures, std::int64_t classes);

}  // namespace lockstep::workloads
