// SPDX-License-Identifier: Apache-2.0
#include "data/shapes.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::data {

namespace {

double contrast(const Color& a, const Color& b) {
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

}  // namespace

Color random_color(Random& random) { return {random.uniform(0, 255), random.uniform(0, 255), random.uniform(0, 255)}; }

Color color_unlike(const Color& other, Random& random) {
  constexpr double least_contrast = 150;
  Color color = random_color(random);
  while (contrast(color, other) < least_contrast) color = random_color(random);
  return color;
}

double inside_triangle(Point p, double radius) {
  constexpr double half_root_3 = 0.8660254037844386;
  return std::min({radius - p.y, radius + 0.5 * p.y - half_root_3 * p.x, radius + 0.5 * p.y + half_root_3 * p.x});
}

double inside_square(Point p, double radius) { return radius - std::max(std::abs(p.x), std::abs(p.y)); }

double inside_cross(Point p, double radius) {
  const double x = std::abs(p.x);
  const double y = std::abs(p.y);
  return std::min(radius - std::max(x, y), radius / 3 - std::min(x, y));
}

}  // namespace lockstep::data
