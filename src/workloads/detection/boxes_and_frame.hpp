// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// Returns the number of boxes that a picture of these sources can have for training: four times that of the annotation
/// with the most, because of mosaic; at least 1. Boxes of crowds do not count. Null sources are left out.
std::int64_t most_boxes(std::span<const vision::Source* const> sources);

/// Writes the boxes of a picture for detectors with anchors, and where the stored picture lies in the input. Tensors:
/// "boxes" {5, 1, most}: class, center x, center y, width and height of each box in pixels of the input; boxes of
/// crowds are left out, and columns behind the last box have the class −1 and zeros. "frame" {6, 1, 1}: scale x, scale
/// y, left and top, by which stored pixels become pixels of the input (stored·scale + left or top), and width and
/// height of the stored picture, upright; these are 0 for a mosaic and for a sample that is left out.
/// @param most  of the boxes of a picture; further ones are left out
std::shared_ptr<const vision::Collate> boxes_and_frame(std::int64_t most);

}  // namespace lockstep::workloads
