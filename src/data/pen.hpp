// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/canvas.hpp"

/// Pen strokes: those of the digits, and drawing them.
namespace lockstep::data {

/// The points of one movement of the pen. A smooth curve joins them; two points are joined by a straight line.
using Stroke = std::vector<Point>;

/// One way to write a digit: its strokes, in a box of −1 … 1 with y downwards.
using Glyph = std::vector<Stroke>;

/// Returns the ways in which people write a digit. @pre 0 ≤ digit ≤ 9
std::span<const Glyph> glyphs(int digit);

/// The size of a sheet in pixels.
struct Sheet {
  int width;
  int height;
};

/// The squared distance from each pixel's center to the middle of the nearest line, as far as the pen reaches.
class DistanceField {
 public:
  DistanceField(Sheet sheet, double reach);
  void add_segment(Point a, Point b);
  /// Returns the distance of a pixel. @param pixel  index in row-major order
  [[nodiscard]] double distance(std::size_t pixel) const;

 private:
  Sheet sheet_;
  double reach_;
  std::vector<double> squares_;
};

/// Draws a smooth curve through the points of a stroke, which are in pixels.
void draw_stroke(const Stroke& stroke, DistanceField& field);

}  // namespace lockstep::data
