// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/trainer/metric.hpp"
#include "vision/source/source.hpp"
#include "workloads/detection/boxes.hpp"
#include "workloads/detection/matching.hpp"
#include "workloads/detection/non_max_suppression.hpp"

namespace lockstep::workloads {

/// Returns the boxes of an annotation that is in the pixels of the stored picture. Difficult ones need not be found.
std::vector<GroundTruth> boxes_of(const vision::Annotation& annotation);

/// Makes the metrics of a detector: "loss" and
/// - "map50", "map" (at the thresholds 0.50, 0.55 … 0.95) and "map75"; "map_small", "map_medium", "map_large" by area;
///   "mar1", "mar10", "mar100", "mar_small", "mar_medium", "mar_large", the mean recall with at most so many detections
///   of a class in a picture: all as pycocotools computes them of the same boxes;
/// - "fitness", 0.1·map50 + 0.9·map;
/// - "precision", "recall" and "f1" at IoU 0.5 and the confidence with the largest mean F1, which "confidence" is;
/// - "yolov5_map50" and "yolov5_map", as YOLOv5 reports them.
/// Values whose boxes the data do not have are empty. Detections are in pixels of the stored pictures. Each rank
/// matches those of its own pictures, and ranks exchange what became of them, so that the values have the same bits
/// however the pictures are divided; of equal scores those of earlier pictures come first, in the order of their image
/// ids, or of the samples where they have none. Samples whose "frame" has no extents are left out. `Metric::classes`
/// has the boxes and detections of each class at that confidence, and its average precision.
/// @param graph    has the output "detections" (`non_max_suppression`), of `source`'s classes; outlives the metrics
/// @param tensors  the tensors of a batch, with "frame" (`DetectionReader`)
/// @param source   has the annotations of the samples, by their index in the data set
/// @throws Error{invalid_argument} for another graph, or tensors without "frame"
/// @cost  `reduce` exchanges 24 bytes for each detection and 56 for each class of a picture
std::vector<std::unique_ptr<trainer::Metric>> detection_metrics(const nn::Graph& graph,
                                                                const std::vector<TensorSpec>& tensors,
                                                                std::shared_ptr<const vision::Source> source,
                                                                const NmsOptions& options = validation_nms);

/// Returns the values of all metrics but the loss, of pictures in ascending order.
std::vector<observe::MetricValue> detection_values(std::span<const PictureOfClass> pictures, std::int64_t classes);

}  // namespace lockstep::workloads
