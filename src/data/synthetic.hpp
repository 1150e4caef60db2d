// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/images_pair.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::data {

/// Size and seed of a drawn data set. Sample i of a part depends on (seed, part, i) alone: a larger data set
/// begins with the smaller one, and no order of drawing matters.
struct SyntheticOptions {
  std::uint64_t seed = 1;
  Count train{12'000};
  Count test{2'000};
};

/// Grey 28×28 images of the digits 0 … 9, drawn as anti-aliased pen strokes that vary in form, thickness, position,
/// scale, rotation and slant, with specks and noise. Only exactly rounded arithmetic is used, so the bytes are the
/// same on every machine with IEEE 754 doubles.
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_digits(const SyntheticOptions& options);

/// Colour 32×32 images in ten classes: stripes, checkers, dots, rings, warm disc, cool disc, triangle, square, cross
/// and gradient. The two discs differ in colour only, the textures in nothing but texture. Bytes as reproducible as
/// those of synthetic_digits().
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_cifar(const SyntheticOptions& options);

}  // namespace lockstep::data
