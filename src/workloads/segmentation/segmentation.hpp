// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// Writes "labels", the class of each pixel, and "masks", a channel for each class with 1 where a pixel has it and 0
/// elsewhere. A picture without a mask has left_out_label and zeros everywhere.
std::shared_ptr<const vision::Collate> planes();

}  // namespace lockstep::workloads
