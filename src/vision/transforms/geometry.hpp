// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "vision/image/resize.hpp"
#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

/// What transforms do to pictures and boxes alike.
namespace lockstep::vision {

/// What surrounds a picture that is letterboxed.
inline constexpr std::uint8_t letterbox_gray = 114;

/// Returns the size of a picture that is resized with its ratio so that it just fits.
Size letterboxed(const Size& fit, int width, int height);

/// Returns the size of a picture that is resized by a factor: rounded, and at least a pixel.
Size scaled(const Size& size, double factor);

/// Replaces the mask of an annotation, if it has one, by what `change(from, to)` makes of it.
template <typename Change>
void change_mask(Annotation& annotation, const Change& change) {
  if (annotation.mask.pixels.empty()) return;
  thread_local Image changed;
  change(std::as_const(annotation.mask), changed);
  std::swap(annotation.mask, changed);
}

/// Replaces a picture by a window on it, of which parts beyond its edges get the value `fill` in all channels, and are
/// left out in masks. Boxes and masks move with the pixels.
/// @param window  its left and top may be negative
void cut_out(const Region& window, std::uint8_t fill, Image& picture, Annotation& annotation, Image& scratch);

/// Replaces a picture by a part of it that is resized with antialiasing. Boxes move with the pixels, and masks get the
/// nearest ones.
/// @pre the part lies inside the picture
void resize_part(const Region& part, const Size& size, Image& picture, Annotation& annotation, Image& scratch);

/// Multiplies the edges of boxes, and the frame.
void scale_annotation(double horizontally, double vertically, Annotation& annotation);

/// Moves boxes into a window of a picture and clips them at its edges. Those of which less than a tenth of the area is
/// left, or a side of less than two pixels, are dropped. The frame moves with them.
/// @param width, height  extents of the window
void move_boxes_into(float left, float top, int width, int height, Annotation& annotation);

/// Writes a number without zeros at its end: "0.4".
std::string short_text(double value);

}  // namespace lockstep::vision
