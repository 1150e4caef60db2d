// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// Where a point (x, y) of a result comes from in a picture: (xx·x + xy·y + x0, yx·x + yy·y + y0). Points are in
/// pixels, and the center of the first pixel is (0.5, 0.5).
struct AffineMap {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;
};

/// Makes a picture whose pixels come from these points of another one, by bilinear interpolation between the four
/// nearest pixels, without antialiasing, as OpenCV's warpAffine. The positions are rounded to 1/256 of a pixel, and all
/// else is computed in integers, so that the bytes are the same on every machine.
/// @param fill  the value of all channels beyond the edges of the picture
/// @param to    overwritten; its memory is used again. Another picture than `from`
/// @throws Error{invalid_argument} if an extent is less than 1, or the map leaves the range of 2³⁰ pixels
/// @cost 4 multiplications for each element of the result; without rotation and shear (xy and yx are 0) 2, and 2 for
///       each column that is seen in each of its rows. Each thread keeps memory for 1 row of `from`
void warp(const Image& from, const AffineMap& map, int width, int height, std::uint8_t fill, Image& to);

/// The same for one channel, each pixel of which becomes that in which its point lies, as of masks.
void warp_nearest(const Image& from, const AffineMap& map, int width, int height, std::uint8_t fill, Image& to);

}  // namespace lockstep::vision
