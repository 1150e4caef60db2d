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

/// Gray 28×28 images of the digits 0 … 9, drawn as anti-aliased pen strokes that vary in form, thickness, position,
/// scale, rotation and slant, with specks and noise. Only exactly rounded arithmetic is used, so the bytes are the
/// same on every machine with IEEE 754 doubles.
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_digits(const SyntheticOptions& options);

/// Color 32×32 images in ten classes: stripes, checkers, dots, rings, warm disc, cool disc, triangle, square, cross
/// and gradient. The two discs differ in color only, the textures in nothing but texture. Bytes as reproducible as
/// those of synthetic_digits().
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_cifar(const SyntheticOptions& options);

/// Color 48×48 images of one to three shapes (disc, triangle, square, cross; four classes) that may lie on each other,
/// and where they are, for the 12×12 cells of 4×4 pixels, then the 6×6 of 8×8 pixels, then the 3×3 of 16×16 pixels,
/// 189 in all. A shape belongs to the cell that the middle of its box is in, the box being that of what is seen of it,
/// among the smallest cells of which it is less than three long, or the largest. Beside "images":
/// "labels" 1×1×189, its class, or −100 where there is none; "objects" 1×1×189, 1 or 0; "boxes" 4×1×189: left, top,
/// right and bottom edge from the cell's middle on, in cells, or zeros. Of shapes that share a cell the foremost
/// counts.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_boxes(const SyntheticOptions& options);

/// The same images, and what each pixel shows. Beside "images": "labels" 1×48×48, 0 for the background, 1 … 4 for the
/// shapes; "masks" 5×48×48, 1 in the plane of that label, else 0.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_masks(const SyntheticOptions& options);

/// Gray 16×64 images of one to five digits, written from left to right. Beside "images": "targets" 1×1×5, the digits,
/// then zeros; "target_lengths", how many they are; "steps", how many columns of 4 pixels are written on.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_words(const SyntheticOptions& options);

}  // namespace lockstep::data
