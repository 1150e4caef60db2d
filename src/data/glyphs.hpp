// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "data/canvas.hpp"

namespace lockstep::data {

/// Points that one movement of the pen passes through; a smooth curve joins them, a straight line if they are two.
using Stroke = std::vector<Point>;

/// One way to write a digit: its strokes, in a box of −1 … 1 with y downwards.
using Glyph = std::vector<Stroke>;

/// The ways in which people write a digit. @pre 0 ≤ digit ≤ 9
std::span<const Glyph> glyphs(int digit);

}  // namespace lockstep::data
