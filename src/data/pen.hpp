// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "data/canvas.hpp"
#include "data/glyphs.hpp"

/// How a pen leaves ink.
namespace lockstep::data {

/// Pixels of a sheet.
struct Sheet {
  int width;
  int height;
};

/// Squared distance of each pixel's center to the nearest ink's middle, as far as the pen reaches.
class DistanceField {
 public:
  DistanceField(Sheet sheet, double reach);
  void add_segment(Point a, Point b);
  /// @param pixel  row-major
  [[nodiscard]] double distance(std::size_t pixel) const;

 private:
  Sheet sheet_;
  double reach_;
  std::vector<double> squares_;
};

/// A smooth curve through the stroke's points, in pixels.
void draw_stroke(const Stroke& stroke, DistanceField& field);

}  // namespace lockstep::data
