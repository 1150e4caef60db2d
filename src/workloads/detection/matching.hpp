// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/detection/boxes.hpp"
#include "workloads/detection/coco_rules.hpp"

namespace lockstep::workloads {

/// Whether something holds at each IoU threshold: a bit for each.
using ThresholdBits = std::uint16_t;
inline constexpr ThresholdBits all_thresholds = (1U << iou_thresholds) - 1;

/// What became of a detection. By range of areas: whether it has matched a box, and whether it is ignored, because
/// that box need not be found, or because it has matched none and has another area.
struct Judgment {
  double score = 0;
  std::array<ThresholdBits, area_ranges.size()> matched{};
  std::array<ThresholdBits, area_ranges.size()> ignored{};
  ThresholdBits matched_by_yolov5 = 0;  ///< whether it has matched a box by YOLOv5's rule, which knows no areas

  /// Whether it counts at all at a threshold, and if so as found.
  [[nodiscard]] bool counts(std::size_t area, std::size_t threshold) const {
    return (ignored[area] >> threshold & 1) == 0;
  }
  [[nodiscard]] bool is_match(std::size_t area, std::size_t threshold) const {
    return (matched[area] >> threshold & 1) != 0;
  }
  friend bool operator==(const Judgment&, const Judgment&) = default;
};

/// The boxes and detections of one class in one picture.
struct PictureOfClass {
  std::int64_t picture = 0;  ///< pictures are evaluated in the order of this number
  std::int32_t label = 0;
  std::array<std::int64_t, area_ranges.size()> boxes{};  ///< by range of areas, those that should be found
  std::vector<Judgment> detections;                      ///< by falling score; equal ones in their order

  friend bool operator==(const PictureOfClass&, const PictureOfClass&) = default;
};

/// Matches the detections of a picture with its boxes, for each class that has either, as pycocotools does: by falling
/// score, the first `most_of_class` detections each take the box with the largest IoU of those that are left; boxes
/// that should be found come first. Of equal IoUs the last box is taken. IoU with a crowd is the part of the detection
/// that lies in it. Further detections count for YOLOv5's rule only: each detection belongs to the box with the largest
/// IoU, and of those whose IoU reaches the threshold the one with the largest score has found the box.
/// @param detections  in any order; of equal scores the first is the better one
/// @return by ascending class
/// @cost  for each class an IoU for each pair of a detection and a box, each looked at 40 times
std::vector<PictureOfClass> match(std::int64_t picture, std::span<const Detection> detections,
                                  std::span<const GroundTruth> boxes);

}  // namespace lockstep::workloads
