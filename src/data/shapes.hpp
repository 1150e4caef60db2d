// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "data/canvas.hpp"

/// Colors and shapes of the drawn color images.
namespace lockstep::data {

/// Red, green and blue, from 0 to 255.
using Color = std::array<double, 3>;

Color random_color(Random& random);
/// Returns a random color that differs visibly from `other`.
Color color_unlike(const Color& other, Random& random);

/// Returns the distance from a point inside to the edge of a triangle with this inner radius around the origin;
/// negative outside.
double inside_triangle(Point p, double radius);
/// Returns the same for a square.
double inside_square(Point p, double radius);
/// Returns the same for a cross whose bars reach `radius` from its middle, with a half width of a third of that.
double inside_cross(Point p, double radius);

}  // namespace lockstep::data
