// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/step.hpp"

namespace lockstep::ops {

/// An interpolated value is (1 − share)·in[first] + share·in[second].
template <typename T>
struct Between {
  std::int64_t first;
  std::int64_t second;
  T share;
};

/// The mapping of elements along one axis of a resized tensor to those of the input, the same source on every device.
struct ResizedAxis {
  std::int64_t in;
  std::int64_t out;
  Interpolation mode;
  bool align_corners;

  /// The number of elements of the input for one of the result.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE double scale() const {
    if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  }
  /// Returns the source of the nearest mode. It is computed in float32 for all dtypes, as in PyTorch: a product that is
  /// rounded to below a whole number takes the element before.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t nearest(std::int64_t i) const {
    const float ratio = static_cast<float>(in) / static_cast<float>(out);
    const auto source = static_cast<std::int64_t>(std::floor(static_cast<float>(i) * ratio));
    return source < in ? source : in - 1;
  }
  template <typename T>
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Between<T> source(std::int64_t i) const {
    if (mode == Interpolation::nearest) return {nearest(i), nearest(i), 0};
    const auto index = static_cast<double>(i);
    const double center = scale() * (index + 0.5) - 0.5;
    const double at = align_corners ? scale() * index : center < 0 ? 0 : center;
    const auto before = static_cast<std::int64_t>(at);
    const std::int64_t first = before < in ? before : in - 1;
    const double share = at - static_cast<double>(first);
    return {first, first + 1 < in ? first + 1 : in - 1, static_cast<T>(share > 1 ? 1 : share)};
  }
};

}  // namespace lockstep::ops
