// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "workloads/detection/boxes.hpp"

namespace lockstep::workloads {

/// Where a stored picture lies in the network's input: input = stored × scale + offset, on each axis. A scale is
/// negative where the picture is mirrored.
struct Frame {
  double scale_x = 1;
  double scale_y = 1;
  double left = 0;    ///< of the picture in the input, in pixels
  double top = 0;     ///< as `left`
  double width = 0;   ///< of the stored picture; 0: the sample is left out, because its picture cannot be decoded
  double height = 0;  ///< as `width`

  [[nodiscard]] bool is_left_out() const { return !(width > 0 && height > 0); }
};

/// Reads the frame of a sample from the tensor "frame" of a batch: six reals for each sample, in the order of the
/// members. @param sample  position in the batch
Frame frame_of(const Buffer& frames, std::int64_t sample);

/// Returns a box of the input in pixels of the stored picture, without what lies outside of the picture. A box that
/// lies outside as a whole has no area.
Rectangle to_stored(const Rectangle& in_input, const Frame& frame);

}  // namespace lockstep::workloads
