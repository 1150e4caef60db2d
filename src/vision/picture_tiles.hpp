// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::vision {

/// A source whose samples are square tiles of pictures, and the sizes of the tiles.
struct Tiles {
  std::shared_ptr<const Source> source;
  std::vector<Size> sizes;
};

/// Divides the pictures of a source into tiles, row by row, so that pictures can be evaluated that are too large for a
/// network. Neighbors overlap by at least a quarter of the side. A pixel counts in one tile, in which it is farther
/// from the edge than in the others: elsewhere its class is left out. Where a picture is shorter than the side, so is
/// its tile. A picture whose size is not known (0×0) is one tile.
/// @param sizes  of the pictures, upright
/// @cost  each tile decodes its picture
Tiles tiles_of(std::shared_ptr<const Source> source, std::span<const Size> sizes, int side);

}  // namespace lockstep::vision
