// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "vision/source/source.hpp"
#include "workloads/detection/boxes.hpp"

namespace lockstep::workloads {

/// Reads the frame of a sample from the tensor "frame" of a batch: six reals for each sample, in the order of the
/// members of `vision::Frame`. @param sample  position in the batch
vision::Frame frame_of(const Buffer& frames, std::int64_t sample);

/// Whether a sample is left out, because its picture cannot be decoded.
inline bool is_left_out(const vision::Frame& frame) { return frame.width <= 0 || frame.height <= 0; }

/// Returns a box of the input in pixels of the stored picture, without what lies outside of the picture. A box that
/// lies outside as a whole has no area.
Rectangle to_stored(const Rectangle& in_input, const vision::Frame& frame);

}  // namespace lockstep::workloads
