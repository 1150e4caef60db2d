// SPDX-License-Identifier: Apache-2.0
#include "data/pen.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::data {

namespace {

/// Returns a point between b and c on the curve that passes through a, b, c and d.
/// @source Catmull, Rom: A class of local interpolating splines, 1974
Point catmull_rom(Point a, Point b, Point c, Point d, double t) {
  const Point linear = c - a;
  const Point quadratic = 2 * a - 5 * b + 4 * c - d;
  const Point cubic = 3 * b - 3 * c + d - a;
  return b + (t / 2) * (linear + t * (quadratic + t * cubic));
}

}  // namespace

DistanceField::DistanceField(Sheet sheet, double reach)
    : sheet_(sheet),
      reach_(reach),
      squares_(static_cast<std::size_t>(sheet.width) * static_cast<std::size_t>(sheet.height),
               std::numeric_limits<double>::infinity()) {}

void DistanceField::add_segment(Point a, Point b) {
  const Point direction = b - a;
  const double length_squared = std::max(dot(direction, direction), 1e-12);
  const auto first = [this](double low, int end) { return std::clamp(static_cast<int>(low - reach_), 0, end); };
  const auto last = [this](double high, int end) { return std::clamp(static_cast<int>(high + reach_) + 1, 0, end); };
  for (int row = first(std::min(a.y, b.y), sheet_.height); row < last(std::max(a.y, b.y), sheet_.height); ++row) {
    for (int column = first(std::min(a.x, b.x), sheet_.width); column < last(std::max(a.x, b.x), sheet_.width);
         ++column) {
      const Point offset = Point{column + 0.5, row + 0.5} - a;
      const double along = std::clamp(dot(offset, direction) / length_squared, 0.0, 1.0);
      const Point gap = offset - along * direction;
      double& square = squares_[static_cast<std::size_t>(row) * static_cast<std::size_t>(sheet_.width) +
                                static_cast<std::size_t>(column)];
      square = std::min(square, dot(gap, gap));
    }
  }
}

double DistanceField::distance(std::size_t pixel) const { return std::sqrt(squares_[pixel]); }

void draw_stroke(const Stroke& stroke, DistanceField& field) {
  constexpr int pieces = 6;
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point before = stroke[i == 0 ? 0 : i - 1];
    const Point after = stroke[std::min(i + 2, stroke.size() - 1)];
    Point from = stroke[i];
    for (int piece = 1; piece <= pieces; ++piece) {
      const Point to = catmull_rom(before, stroke[i], stroke[i + 1], after, static_cast<double>(piece) / pieces);
      field.add_segment(from, to);
      from = to;
    }
  }
}

}  // namespace lockstep::data
