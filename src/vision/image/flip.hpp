// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// Exchanges left and right.
inline void flip(Image& picture) {
  for (int y = 0; y < picture.height; ++y) {
    std::uint8_t* left = picture.row(y).data();
    std::uint8_t* right = left + picture.row_bytes() - picture.channels;
    for (; left < right; left += picture.channels, right -= picture.channels)
      std::swap_ranges(left, left + picture.channels, right);
  }
}

}  // namespace lockstep::vision
