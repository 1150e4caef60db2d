// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// Exchanges left and right of a picture whose pixels have `channels` bytes each.
template <int channels>
void flip_pixels(Image& picture) {
  struct Pixel {
    std::uint8_t bytes[channels];
  };
  for (int y = 0; y < picture.height; ++y) {
    auto* const row = reinterpret_cast<Pixel*>(picture.row(y).data());
    std::reverse(row, row + picture.width);
  }
}

/// Exchanges left and right. @pre the picture has 1 or 3 channels
inline void flip(Image& picture) { picture.channels == 1 ? flip_pixels<1>(picture) : flip_pixels<3>(picture); }

}  // namespace lockstep::vision
