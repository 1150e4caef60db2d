// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/ops/operators.hpp"

/// The extents of a sample by axis.
namespace lockstep::ops {

using Extents = std::array<std::int64_t, 3>;

inline std::size_t index_of(Axis axis) { return static_cast<std::size_t>(axis); }

inline Extents sample_extents(const Shape& shape) { return {shape.channels, shape.height, shape.width}; }

inline Shape shape_of(std::int64_t batch, const Extents& extents) {
  return {batch, extents[0], extents[1], extents[2]};
}

/// Returns the number of adjacent elements that share the indices of all axes before this one.
inline std::int64_t run_of(const Shape& shape, Axis axis) {
  const Extents extents = sample_extents(shape);
  std::int64_t run = 1;
  for (std::size_t i = index_of(axis); i < extents.size(); ++i) run *= extents[i];
  return run;
}

inline std::string text(Axis axis) {
  constexpr std::array names{"channels", "height", "width"};
  return names.at(index_of(axis));
}

}  // namespace lockstep::ops
