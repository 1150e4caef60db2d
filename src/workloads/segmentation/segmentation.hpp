// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// Writes "labels", the class of each pixel, and "masks", a channel for each class with 1 where a pixel has it and 0
/// elsewhere. Pixels that are left out, and all of a picture without a mask, have left_out_label and zeros.
std::shared_ptr<const vision::Collate> planes();
/// The same for users' pictures, and "frame" (`frame_tensor`).
std::shared_ptr<const vision::Collate> planes_and_frame();

}  // namespace lockstep::workloads
