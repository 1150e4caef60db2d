// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "kernels/batch_norm.hpp"

namespace lockstep::kernels {

namespace {

/// Maps integers to the finite floats and infinities in ascending order.
float at(std::int64_t place) {
  return std::copysign(std::bit_cast<float>(static_cast<std::uint32_t>(std::abs(place))), place < 0 ? -1.0F : 1.0F);
}
constexpr std::int64_t last_place = 0x7f800000;
std::int64_t place_of(float x) {
  const auto magnitude = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(std::abs(x)));
  return x < 0 ? -magnitude : magnitude;
}

/// @param reaches  whether a result reaches the level; if one does, all larger ones do
template <typename Reaches>
Threshold find_threshold(double scale, double shift, double level, const Reaches& reaches) {
  constexpr float nowhere = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto is_reached = [&](std::int64_t place) {
    return reaches(static_cast<float>(static_cast<double>(at(place)) * std::abs(scale) + shift));
  };
  const float direction = scale < 0 ? -1.0F : 1.0F;
  if (scale == 0) return {direction, reaches(static_cast<float>(shift)) ? -infinity : nowhere};
  const auto guess = static_cast<float>((level - shift) / std::abs(scale));
  if (!(std::abs(scale) < infinity) || std::isnan(guess)) return {direction, nowhere};
  // The search starts at the threshold in exact arithmetic, takes growing steps to both sides of it, and then bisects.
  std::int64_t above = place_of(guess);
  std::int64_t below = above;
  for (std::int64_t step = 1; above < last_place && !is_reached(above); step *= 2)
    above = std::min(above + step, last_place);
  if (!is_reached(above)) return {direction, nowhere};
  for (std::int64_t step = 1; below > -last_place && is_reached(below); step *= 2)
    below = std::max(below - step, -last_place);
  if (is_reached(below)) return {direction, -infinity};
  while (above - below > 1) {
    const std::int64_t middle = below + (above - below) / 2;
    (is_reached(middle) ? above : below) = middle;
  }
  return {direction, at(above)};
}

}  // namespace

Threshold threshold_of(double scale, double shift) {
  return find_threshold(scale, shift, 0, [](float result) { return result > 0; });
}

Threshold threshold_of_six(double scale, double shift) {
  return find_threshold(scale, shift, 6, [](float result) { return result >= 6; });
}

}  // namespace lockstep::kernels
