// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workloads/picture_task.hpp"

namespace lockstep::workloads {

/// Detection in users' pictures, as YOLOv5 trains it: mosaics, and values of 0 to 1; evaluated and predicted in a
/// letterbox. The input has a multiple of 32 pixels, 640 where the user does not say it.
PictureTask detection();

/// The transforms for detection. Training takes mosaic, affine, hsv and flip if `augment` is empty. If what it names
/// does not set the size of the pictures, an affine transform follows mosaic, and otherwise a letterbox comes first.
/// @throws Error{invalid_argument} as vision::parse_transforms
vision::Pipelines detection_pipelines(std::string_view augment, const vision::Size& input, bool are_equal);

}  // namespace lockstep::workloads
