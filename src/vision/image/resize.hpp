// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// A rectangle of pixels in a picture.
struct Region {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

/// Resizes a region with antialiasing: each pixel is a mean of the pixels that it covers, weighted by a triangle that
/// is as wide as twice their distance (bilinear where the picture grows). The bytes are those of Pillow's crop() and
/// resize(BILINEAR), and so of torchvision's resized_crop. They are computed in integers, in the same order everywhere,
/// so that they are the same on every machine.
/// @param from  1 or 3 channels
/// @param to    overwritten; its memory is used again. Another picture than `from`
/// @throws Error{invalid_argument} if the region does not lie in the picture, or an extent is less than 1
/// @cost height·W·(w/W + 1) + H·W·(h/H + 1) multiplications for each channel, of a region w×h to W×H. Each thread keeps
///       memory for 16 columns and one picture of W×h
void resize(const Image& from, const Region& region, int width, int height, Image& to);

/// Resizes a whole picture as resize() does, but by cubic convolution, as Pillow's resize(BICUBIC).
/// @throws Error{invalid_argument} if an extent is less than 1
void resize_bicubic(const Image& from, int width, int height, Image& to);

/// Resizes a whole picture to width×height, and writes a part of the result over a part of another picture. The bytes
/// are those of resize(); only what is seen is computed.
/// @param window  the part of the result that is written
/// @param to      has as many channels as `from`
/// @param left, top  where the corner of the window comes to lie in `to`, which has room for the window there
/// @throws Error{invalid_argument} if the window is empty or does not lie in the result and in `to`
void resize_into(const Image& from, int width, int height, const Region& window, Image& to, int left, int top);

/// Resizes a region of one channel, each pixel of which becomes that in whose area its middle lies, as of masks.
/// @param to  overwritten; its memory is used again. Another picture than `from`
/// @throws Error{invalid_argument} as resize()
void resize_nearest(const Image& from, const Region& region, int width, int height, Image& to);

/// Resizes a whole picture.
inline void resize(const Image& from, int width, int height, Image& to) {
  resize(from, {0, 0, from.width, from.height}, width, height, to);
}

}  // namespace lockstep::vision
