// SPDX-License-Identifier: Apache-2.0
#include "workloads/frame.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "vision/collate.hpp"

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

void write_frame(const vision::Frame& frame, const Buffer& target) {
  const std::array<double, frame_numbers> numbers = {frame.scale_x,
                                                     frame.scale_y,
                                                     frame.left,
                                                     frame.top,
                                                     static_cast<double>(frame.width),
                                                     static_cast<double>(frame.height)};
  for (std::size_t i = 0; i < numbers.size(); ++i) vision::put(target, static_cast<std::int64_t>(i), numbers[i]);
}

}  // namespace lockstep::workloads
