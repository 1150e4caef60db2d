// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// Resizes a picture by interpolation between the nearest pixels only, without antialiasing, as networks of OpenCV's
/// users know it. The bytes are those of OpenCV's resize(INTER_LINEAR), in its fixed-point arithmetic.
/// @param from  1 or 3 channels
/// @param to    overwritten; its memory is used again. Another picture than `from`
/// @pre the extents are at least 1
/// @cost 4 multiplications for each channel of a pixel of the result
void resize_bilinear(const Image& from, int width, int height, Image& to);

}  // namespace lockstep::vision
