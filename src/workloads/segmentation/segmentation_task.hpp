// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workloads/picture_task.hpp"

namespace lockstep::workloads {

/// Segmentation of users' pictures. The input is as large as the pictures if all have one size whose sides are
/// multiples of 8 and at most 1024 pixels, otherwise 512×512; other pictures are cropped for training. Evaluations and
/// predictions take each picture as a whole, at its own size or resized by a factor, with gray (127) on the right and
/// below up to a multiple of 32 pixels. Metrics are those of the pixels of the stored masks.
PictureTask segmentation();

/// The transforms for segmentation. Training takes flip if `augment` is empty, and scale and flip where the pictures
/// have other sizes than the input. A random crop follows scale, or comes first, if nothing else brings the pictures to
/// the size of the input.
/// @throws Error{invalid_argument} as vision::parse_transforms, and for mosaic, which has no masks
vision::Pipelines segmentation_pipelines(std::string_view augment, const vision::Size& input, bool are_equal);

}  // namespace lockstep::workloads
