// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/images_pair.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::data {

/// Size and seed of a drawn data set. Sample i of a part depends on (seed, part, i) only, so a larger data set begins
/// with the smaller one, and the order of drawing does not matter.
struct SyntheticOptions {
  std::uint64_t seed = 1;
  Count train{12'000};
  Count test{2'000};
};

/// Returns gray 28×28 images of the digits 0 … 9, drawn as anti-aliased pen strokes that vary in form, thickness,
/// position, scale, rotation and slant, with specks and noise. Only exactly rounded arithmetic is used, so the bytes
/// are the same on every machine with IEEE 754 doubles.
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_digits(const SyntheticOptions& options);

/// Returns color 32×32 images in ten classes: stripes, checkers, dots, rings, warm disc, cool disc, triangle, square,
/// cross and gradient. The two discs differ only in color, the textures only in texture. The bytes are as reproducible
/// as those of synthetic_digits().
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_cifar(const SyntheticOptions& options);

/// Returns color 48×48 images of one to three shapes (disc, triangle, square, cross; four classes) that may cover each
/// other, and their positions for 12×12 cells of 4×4 pixels, then 6×6 cells of 8×8 pixels, then 3×3 cells of 16×16
/// pixels, 189 cells in total. The box of a shape surrounds its visible part. A shape belongs to the cell with the
/// middle of its box, on the finest scale on which the box is shorter than three cells, or on the coarsest scale. If
/// shapes share a cell, the foremost counts. Tensors beside "images": "labels" 1×1×189, the class, or −100 if there is
/// no shape; "objects" 1×1×189, 1 or 0; "boxes" 4×1×189: the left, top, right and bottom edge relative to the middle of
/// the cell, in cells, or zeros.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_boxes(const SyntheticOptions& options);

/// Returns the same images with the contents of each pixel. Tensors beside "images": "labels" 1×48×48, 0 for the
/// background and 1 … 4 for the shapes; "masks" 5×48×48, 1 in the plane of that label and 0 in the others.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_masks(const SyntheticOptions& options);

/// Returns gray 16×64 images of one to five digits, written from left to right. Tensors beside "images": "targets"
/// 1×1×5, the digits, followed by zeros; "target_lengths", their number; "steps", the number of columns of 4 pixels
/// that are written on.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_words(const SyntheticOptions& options);

}  // namespace lockstep::data
