// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/drawn.hpp"
#include "data/random.hpp"
#include "data/synthetic.hpp"

/// Color images of one to three shapes that may lie on each other, for whoever looks for them.
namespace lockstep::data {

/// Rows, and columns.
constexpr int scene_side = 48;
/// Disc, triangle, square, cross.
constexpr std::int32_t scene_classes = 4;

/// What an image shows.
struct Scene {
  std::vector<std::int32_t> labels;  ///< of its shapes, those behind first
  /// Which shape is seen at each pixel, counted from 1; 0 is the background. Row-major.
  std::vector<std::uint8_t> shown;
};

/// @throws Error{invalid_argument} if `count` is not positive
Drawn<Scene> draw_scenes(const char* name, Count count, std::uint64_t seed, Stream stream);

}  // namespace lockstep::data
