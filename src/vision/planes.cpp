// SPDX-License-Identifier: Apache-2.0
#include "vision/planes.hpp"

#include <algorithm>
#include <cstddef>

namespace lockstep::vision {
namespace {

/// Calls `convert(byte, channel)` for every element, in the order of planes.
template <int channels, typename Element, typename Convert>
void write_channels(const Image& picture, Element* planes, const Convert& convert) {
  const std::uint8_t* pixels = picture.pixels.data();
  const std::size_t count = picture.pixels.size() / channels;
  for (std::size_t i = 0; i < count; ++i)
    for (int channel = 0; channel < channels; ++channel)
      planes[channel * count + i] = convert(pixels[i * channels + channel], channel);
}

template <typename Element, typename Convert>
void write_all_channels(const Image& picture, Element* planes, const Convert& convert) {
  if (picture.channels == 1) return write_channels<1>(picture, planes, convert);
  write_channels<3>(picture, planes, convert);
}

template <typename Number>
void write_line(const Image& picture, int width, const Number* table, Number* planes) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  const auto columns = static_cast<std::size_t>(picture.width);
  for (std::size_t plane = 0; plane < channels; ++plane) {
    const std::size_t channel = channels - 1 - plane;
    for (int y = 0; y < picture.height; ++y) {
      const std::uint8_t* row = picture.row(y).data();
      for (std::size_t x = 0; x < columns; ++x) planes[x] = table[channel * 256 + row[x * channels + channel]];
      std::fill(planes + columns, planes + width, Number{0});
      planes += width;
    }
  }
}

}  // namespace

void write_line_planes(const Image& picture, int width, const float* table, float* planes) {
  write_line(picture, width, table, planes);
}

void write_line_planes(const Image& picture, int width, const double* table, double* planes) {
  write_line(picture, width, table, planes);
}

void write_planes(const Image& picture, std::uint8_t* planes) {
  write_all_channels(picture, planes, [](std::uint8_t byte, int /*channel*/) { return byte; });
}

void write_planes(const Image& picture, const float* table, float* planes) {
  write_all_channels(picture, planes, [table](std::uint8_t byte, int channel) { return table[channel * 256 + byte]; });
}

void write_planes(const Image& picture, const double* table, double* planes) {
  write_all_channels(picture, planes, [table](std::uint8_t byte, int channel) { return table[channel * 256 + byte]; });
}

}  // namespace lockstep::vision
