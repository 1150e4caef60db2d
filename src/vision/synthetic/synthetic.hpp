// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/types.hpp"
#include "vision/source/source.hpp"

/// Drawn pictures with annotations. Only exactly rounded arithmetic is used, so the bytes are the same on every machine
/// with IEEE 754 doubles. All functions throw Error{invalid_argument} if a number of samples is not positive.
namespace lockstep::vision {

/// Size and seed of a drawn source. Sample i of a part depends on (seed, part, i) only, so a larger source begins with
/// the smaller one, and the order of drawing does not matter.
struct SyntheticOptions {
  std::uint64_t seed = 1;
  Count train{12'000};
  Count test{2'000};
};

/// Returns gray 28×28 pictures of the digits 0 … 9, drawn as anti-aliased pen strokes that vary in form, thickness,
/// position, scale, rotation and slant, with specks and noise.
SourcePair synthetic_digits(const SyntheticOptions& options);

/// Returns color 32×32 pictures in ten classes: stripes, checkers, dots, rings, warm disc, cool disc, triangle, square,
/// cross and gradient. The two discs differ only in color, the textures only in texture.
SourcePair synthetic_cifar(const SyntheticOptions& options);

/// Returns color 224×224 pictures like those of synthetic_cifar(), in 1,000 classes: each of its ten in ten ranges of
/// rotations and ten of sizes.
SourcePair synthetic_imagenet(const SyntheticOptions& options);

/// Returns color 48×48 pictures of one to three shapes (disc, triangle, square, cross) that may cover each other, with
/// the box around the visible part of each, the rearmost first. Shapes of which less than 12 pixels are visible have no
/// box.
SourcePair synthetic_boxes(const SyntheticOptions& options);

/// Returns the same pictures with the class of each pixel: background, disc, triangle, square or cross.
SourcePair synthetic_masks(const SyntheticOptions& options);

/// Returns gray 16×64 pictures of one to five digits, written from left to right, with their text and a box that ends
/// where the last digit does.
SourcePair synthetic_words(const SyntheticOptions& options);

}  // namespace lockstep::vision
