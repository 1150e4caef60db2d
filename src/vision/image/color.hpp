// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/image/image.hpp"

// Changes of color as torchvision's ColorJitter makes them with Pillow, to the same bytes. They are computed in
// integers, and in floating-point operations that IEEE 754 rounds exactly, so the bytes are the same on every machine.
// All work in place on pictures of 1 or 3 channels, cost one pass (contrast: two), and do not allocate.

namespace lockstep::vision {

/// Returns the brightness of a color, 0 … 255 (ITU-R 601).
constexpr std::uint8_t gray_of(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

/// Makes one channel of three. Nothing happens to a picture of one.
void to_gray(Image& picture);

/// Multiplies by the factor: 0 is black, 1 changes nothing.
/// @param factor  of these three functions: not negative
void adjust_brightness(Image& picture, float factor);
/// Moves values away from the mean brightness of the picture: 0 makes all of it gray, 1 changes nothing.
void adjust_contrast(Image& picture, float factor);
/// Moves colors away from their brightness: 0 makes them gray, 1 changes nothing. A gray picture does not change.
void adjust_saturation(Image& picture, float factor);
/// Turns the hue by this part of a circle, −0.5 … 0.5. A gray picture does not change.
void adjust_hue(Image& picture, double turn);

/// Multiplies hue, saturation and value of each color. The hue goes around its circle, which begins and ends with red;
/// saturation and value stop at their largest. A gray picture of one channel changes its value only.
/// @param hue  of these factors: 0 … 2; the others are not negative
void scale_hsv(Image& picture, float hue, float saturation, float value);

}  // namespace lockstep::vision
