// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "vision/image/image.hpp"
#include "vision/image/resize.hpp"

// Drawing on pictures of 1 or 3 channels. What lies beyond the edges is left out.

namespace lockstep::vision {

/// A color of red, green and blue. On a picture of one channel it is drawn as its brightness.
struct Color {
  std::uint8_t red = 255;
  std::uint8_t green = 255;
  std::uint8_t blue = 255;
};

/// Returns a color for a class. Neighboring classes have colors that are easily told apart.
Color class_color(int label);

/// Returns the colors of the classes in masks, by label. @source the palette of Pascal VOC, which PaddleSeg has, too
std::array<std::array<std::uint8_t, 3>, 256> class_palette();

/// Fills a region, which may extend beyond the picture.
void fill(const Region& region, const Color& color, Image& picture);

/// Mixes each pixel in equal parts with the color of its class. Pixels that are left out, and those beyond the mask,
/// stay as they are. @param mask  one channel
void draw_mask(const Image& mask, Image& picture);

/// Draws the outline of a region, along its inside.
/// @param line  width of the line in pixels
void draw_rectangle(const Region& region, int line, const Color& color, Image& picture);

/// The extents of a text in pixels: 8 for each character, and a height of 16.
/// @param text  UTF-8; each byte that is not part of a character counts as one
int text_width(std::string_view text);

/// Draws one line of text, white or black, on a filled box of this color. Characters outside of printable ASCII become
/// hollow boxes. The box is moved into the picture if it would extend beyond it and the picture has room for it.
/// @param left, top  corner of the box
void draw_label(std::string_view text, int left, int top, const Color& color, Image& picture);

/// Puts pictures of any extents side by side, from left to right and in rows from the top, in cells as large as the
/// largest one. The gaps are white.
/// @param columns  cells in a row, at least 1
/// @param gap      pixels between cells
/// @param sheet    overwritten; it has three channels if one of the pictures has
void put_side_by_side(std::span<const Image> pictures, int columns, int gap, Image& sheet);

}  // namespace lockstep::vision
