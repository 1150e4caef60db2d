// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "workloads/detection/boxes.hpp"

namespace lockstep::workloads {

/// Which of a model's boxes are detections. The defaults are those of predictions.
struct NmsOptions {
  double confidence = 0.25;  ///< a detection has a larger score, objectness × probability of the class
  double iou = 0.45;         ///< a box that overlaps a better one of its class by a larger IoU is suppressed
  int most = 300;            ///< most detections of a picture: those with the largest scores
  std::int64_t most_candidates = 30'000;  ///< pairs of a box and a class that are looked at, those with the best scores
  bool has_several_labels = false;        ///< a box counts for each class with enough score, not for the best one only
};

/// The options of validations: average precision also counts detections with low scores.
inline constexpr NmsOptions validation_nms{.confidence = 0.001, .iou = 0.6, .has_several_labels = true};

/// Finds the detections of a sample by non-maximum suppression of each class. Candidates are taken in the order of
/// their scores, equal ones in the order of boxes, then of classes, so that the result does not depend on the machine.
/// IoU is computed in the dtype of the outputs, as by torchvision's `nms`. Boxes that are not finite are left out.
/// @param outputs  of the sample, float32 or float64, (5 + classes) × boxes: center x, center y, width, height,
///                 objectness, and the probability of each class
/// @return the detections in the order of their scores, in the pixels of the outputs
/// @cost  a multiplication for each pair of a class and a box whose objectness reaches the confidence; then a heap of
///        the best candidates, and at most `most` IoUs for each one that is taken from it
/// @source Felzenszwalb et al., Object Detection with Discriminatively Trained Part-Based Models, 2010
std::vector<Detection> non_max_suppression(const Buffer& outputs, std::int64_t classes, const NmsOptions& options);

}  // namespace lockstep::workloads
