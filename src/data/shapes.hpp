// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "data/canvas.hpp"

/// What drawn color images show.
namespace lockstep::data {

/// Red, green and blue, 0 … 255.
using Color = std::array<double, 3>;

Color random_color(Random& random);
/// Any color that can be told from `other`.
Color color_unlike(const Color& other, Random& random);

/// Distance inside the three edges of a triangle of that inner radius around the origin; outside it is negative.
double inside_triangle(Point p, double radius);
/// The same of a square.
double inside_square(Point p, double radius);
/// The same of a cross whose bars are `radius` long, and a third of that wide, from its middle.
double inside_cross(Point p, double radius);

}  // namespace lockstep::data
