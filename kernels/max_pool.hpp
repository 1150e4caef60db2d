// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Max pool with windows that do not overlap, over activations in blocks of channels. According to `train
/// --explain-step`, oneDNN 2.6.3 took longer for LeNet's first pool than for its first convolution.
namespace lockstep::kernels {

/// Planes of rows × columns positions, each with `lanes` adjacent channels, are cut into windows without overlap or
/// padding; the remainder at the end of rows and columns belongs to no window. The struct has plain numbers only: see
/// `InstructionSet`.
struct PoolGrid {
  std::int64_t planes;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t window_rows;
  std::int64_t window_columns;  ///< rows · columns of a window: at most most_of_pool_window
  std::int64_t lanes;
  bool relu;  ///< whether results below 0 are replaced by 0
};

/// Limit of a window's size: positions in a window are bytes, and one value means that no position gets the gradient.
inline constexpr std::int64_t most_of_pool_window = 255;

/// y = the maximum of each window, overwritten; a NaN is larger than all numbers. x is planes × rows × columns × lanes,
/// y planes × windows × lanes. `places` has the shape of y; if not null it receives the position in the window, for
/// `max_pool_backward`; with ties it is the first, row by row.
void max_pool(const PoolGrid& grid, const float* x, float* y, std::uint8_t* places);

/// dx = dy at the positions that `max_pool` has stored, and 0 elsewhere; overwritten.
void max_pool_backward(const PoolGrid& grid, const std::uint8_t* places, const float* dy, float* dx);

}  // namespace lockstep::kernels
