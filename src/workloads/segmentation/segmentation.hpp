// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// Writes "labels", the class of each pixel. Pixels that are left out, and all of a picture without a mask, have
/// left_out_label.
std::shared_ptr<const vision::Collate> pixel_labels();
/// The same for users' pictures, and "frame" (`frame_tensor`).
std::shared_ptr<const vision::Collate> pixel_labels_and_frame();

}  // namespace lockstep::workloads
