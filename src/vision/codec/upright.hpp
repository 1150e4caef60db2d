// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "vision/codec/codec.hpp"
#include "vision/image/image.hpp"

// The orientation that cameras write into EXIF data, and pictures turned by it. Orientations are 1 … 8: in 2, 4, 5 and
// 7 the picture is mirrored, and 5 to 8 exchange width and height.

namespace lockstep::vision {

/// Finds the orientation in EXIF data, which begin with the header of a TIFF file. Reads nothing outside of them.
/// @return 1 … 8; 1 if there is none, or the data are damaged
int exif_orientation(std::span<const std::byte> tiff);

/// Exchanges width and height if the orientation does.
PictureInfo upright(PictureInfo stored);

/// Turns and mirrors a picture that is stored in this orientation so that it stands upright.
/// @cost one pass over the pixels, and memory of the picture's size unless the orientation is 1
void turn_upright(Image& picture, int orientation);

}  // namespace lockstep::vision
