// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/tensor_spec.hpp"
#include "vision/source/source.hpp"

namespace lockstep::workloads {

/// Reads the frame of a sample from the tensor "frame" of a batch. @param sample  position in the batch
vision::Frame frame_of(const Buffer& frames, std::int64_t sample);

/// Whether a sample is left out, because its picture cannot be decoded.
inline bool is_left_out(const vision::Frame& frame) { return frame.width <= 0 || frame.height <= 0; }

/// Where the stored picture lies in the input, as a tensor of a batch: six reals for each sample, in the order of the
/// members of `vision::Frame`.
inline TensorSpec frame_tensor() { return {"frame", {6, 1, 1}, Content::real}; }
/// Writes the frame of one sample.
void write_frame(const vision::Frame& frame, const Buffer& target);

}  // namespace lockstep::workloads
