// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "nn/models/blocks.hpp"

namespace lockstep::nn::models {

/// Width and height of YOLOv5's anchors for COCO in pixels, from the finest level on.
inline constexpr std::array<double, 18> anchors_of_coco = {10, 13, 16,  30,  33, 23,  30,  61,  62,
                                                           45, 59, 119, 116, 90, 156, 198, 373, 326};
/// Pixels of a cell of each level.
inline constexpr std::array<std::int64_t, 3> yolov5_strides = {8, 16, 32};
inline constexpr std::size_t anchors_of_level = 3;
/// The side of images in pixels, and the number of classes, that initial values and weights of losses are meant for.
inline constexpr double yolov5_size = 640;
inline constexpr double yolov5_classes = 80;

/// Ends YOLOv5: adds a head for each level ("model.24.m.0" and so on), the losses against "boxes", the decoded boxes as
/// the output "detections", and the anchors in cells as the constant "model.24.anchors".
/// @param features  of the levels, the finest first
/// @throws Error{invalid_argument} for another number of anchors than nine
void add_yolov5_heads(Graph& graph, const DataSpec& data, const std::array<int, 3>& features);

}  // namespace lockstep::nn::models
