// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::vision {

inline constexpr int glyph_width = 8;
inline constexpr int glyph_height = 16;
using Glyph = std::array<std::uint8_t, glyph_height>;

/// Returns the rows of a character, from the top; the highest bit is at the left. A character that is not printable
/// ASCII is a hollow box.
const Glyph& glyph_of(char32_t character);

}  // namespace lockstep::vision
