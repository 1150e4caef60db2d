// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "data/canvas.hpp"

namespace lockstep::data {

/// The points of one movement of the pen. A smooth curve joins them; two points are joined by a straight line.
using Stroke = std::vector<Point>;

/// One way to write a digit: its strokes, in a box of −1 … 1 with y downwards.
using Glyph = std::vector<Stroke>;

/// Returns the ways in which people write a digit. @pre 0 ≤ digit ≤ 9
std::span<const Glyph> glyphs(int digit);

}  // namespace lockstep::data
