// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The largest of windows that lie beside each other, over activations in blocks of channels. By what
/// `train --explain-step` shows, oneDNN 2.6.3's own took longer for LeNet's first pool than for its first convolution.
namespace lockstep::kernels {

/// Planes of rows × columns positions, each of `lanes` channels side by side, are cut into windows without overlap or
/// padding; what is left over at the end of rows and columns belongs to none. Plain numbers only: see `InstructionSet`.
struct PoolGrid {
  std::int64_t planes;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t window_rows;
  std::int64_t window_columns;  ///< rows · columns of a window: at most most_of_pool_window
  std::int64_t lanes;
  bool relu;  ///< whether results below 0 are replaced by it
};

/// Places in a window are bytes, and one of them says that no place takes the gradient.
inline constexpr std::int64_t most_of_pool_window = 255;

/// y = the largest of each window, overwritten; a NaN is larger than all. x is planes × rows × columns × lanes, y
/// planes × windows × lanes. `places`, as y, if not null: where in its window it was, for `max_pool_backward`; of equal
/// ones the first, row by row.
void max_pool(const PoolGrid& grid, const float* x, float* y, std::uint8_t* places);

/// dx = dy at the places that `max_pool` has left, and 0 elsewhere; overwritten.
void max_pool_backward(const PoolGrid& grid, const std::uint8_t* places, const float* dy, float* dx);

}  // namespace lockstep::kernels
