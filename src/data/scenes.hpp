// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/drawn.hpp"
#include "data/random.hpp"
#include "data/synthetic.hpp"

/// Color images of one to three shapes that may cover each other, for detection and segmentation.
namespace lockstep::data {

/// Number of rows, and of columns.
constexpr int scene_side = 48;
/// Number of classes: disc, triangle, square, cross.
constexpr std::int32_t scene_classes = 4;

/// The contents of an image.
struct Scene {
  std::vector<std::int32_t> labels;  ///< labels of the shapes, the rearmost first
  /// Number of the shape that is visible at each pixel, counted from 1; 0 is the background. Row-major.
  std::vector<std::uint8_t> shown;
};

/// @throws Error{invalid_argument} if `count` is not positive
Drawn<Scene> draw_scenes(const char* name, Count count, std::uint64_t seed, Stream stream);

}  // namespace lockstep::data
