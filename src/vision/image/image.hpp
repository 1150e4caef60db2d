// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Pictures in memory, and in files.
namespace lockstep::vision {

/// A picture in memory: rows from top to bottom, pixels from left to right, and the channels of a pixel side by side
/// (red, green, blue; or one of gray, or of a palette's indices).
struct Image {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<std::uint8_t> pixels;  ///< height × width × channels

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(width) * channels; }
  [[nodiscard]] std::span<std::uint8_t> row(int y) { return {pixels.data() + y * row_bytes(), row_bytes()}; }
  [[nodiscard]] std::span<const std::uint8_t> row(int y) const {
    return {pixels.data() + y * row_bytes(), row_bytes()};
  }
  /// Changes the extents. Memory is kept where it suffices; the pixels are then undefined.
  void resize(int new_width, int new_height, int new_channels) {
    width = new_width;
    height = new_height;
    channels = new_channels;
    pixels.resize(static_cast<std::size_t>(height) * row_bytes());
  }
};

/// The value of a pixel that is left out, in masks: pictures of one channel that have the class of each pixel.
inline constexpr std::uint8_t left_out_pixel = 255;

}  // namespace lockstep::vision
