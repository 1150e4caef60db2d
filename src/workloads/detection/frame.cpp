// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/frame.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace lockstep::workloads {
namespace {

constexpr std::size_t frame_numbers = 6;

template <typename Real>
std::array<double, frame_numbers> numbers_of(const Buffer& frames, std::int64_t sample) {
  const Real* numbers = static_cast<const Real*>(frames.data) + sample * std::int64_t{frame_numbers};
  std::array<double, frame_numbers> result{};
  std::copy(numbers, numbers + frame_numbers, result.begin());
  return result;
}

}  // namespace

vision::Frame frame_of(const Buffer& frames, std::int64_t sample) {
  const auto [scale_x, scale_y, left, top, width, height] =
      frames.dtype == DType::float64 ? numbers_of<double>(frames, sample) : numbers_of<float>(frames, sample);
  return {scale_x, scale_y, left, top, static_cast<int>(width), static_cast<int>(height)};
}

Rectangle to_stored(const Rectangle& in_input, const vision::Frame& frame) {
  const auto x_of = [&](double x) {
    return std::clamp((x - frame.left) / frame.scale_x, 0.0, static_cast<double>(frame.width));
  };
  const auto y_of = [&](double y) {
    return std::clamp((y - frame.top) / frame.scale_y, 0.0, static_cast<double>(frame.height));
  };
  const auto [left, right] = std::minmax({x_of(in_input.x), x_of(in_input.right())});
  const auto [top, bottom] = std::minmax({y_of(in_input.y), y_of(in_input.bottom())});
  return {left, top, right - left, bottom - top};
}

}  // namespace lockstep::workloads
