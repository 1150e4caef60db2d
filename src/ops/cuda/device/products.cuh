// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/cuda/device/launch.cuh"

/// Products of matrices in float32 whose elements functions give, for operators that are no convolutions. Sums are in
/// one order, which depends on the extents only.
namespace lockstep::ops::cuda {

/// Which index of a matrix neighboring threads should read next to each other.
enum class Along { first, second };

/// A product of rows × terms and terms × columns.
struct ProductExtents {
  std::int64_t rows;
  std::int64_t terms;
  std::int64_t columns;
};

/// Rows and columns of a block, of which each thread has 4 × 4.
inline constexpr int product_tile = 64;
/// Number of terms that are in shared memory at once.
inline constexpr int product_depth = 16;

/// Reads a tile of a matrix into shared memory, with zeros outside of the matrix.
template <Along along, typename Of>
__device__ void read_tile(float (&tile)[product_depth][product_tile], const Of& of, std::int64_t first,
                          std::int64_t count, std::int64_t first_term, std::int64_t terms) {
  for (int i = static_cast<int>(threadIdx.x); i < product_depth * product_tile; i += threads_per_block) {
    const int k = along == Along::second ? i % product_depth : i / product_tile;
    const int j = along == Along::second ? i / product_depth : i % product_tile;
    const bool exists = first + j < count && first_term + k < terms;
    tile[k][j] = exists ? of(first + j, first_term + k) : 0.0F;
  }
}

template <Along of_rows, Along of_columns, typename Rows, typename Columns, typename Finish>
__global__ void __launch_bounds__(threads_per_block)
    multiply_tile(Rows rows, Columns columns, Finish finish, ProductExtents extents) {
  __shared__ float left[product_depth][product_tile];
  __shared__ float right[product_depth][product_tile];
  constexpr int each = 4;
  constexpr int step = product_tile / each;
  const int x = static_cast<int>(threadIdx.x) % step;
  const int y = static_cast<int>(threadIdx.x) / step;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * product_tile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.y) * product_tile;
  float sums[each][each] = {};
  for (std::int64_t term = 0; term < extents.terms; term += product_depth) {
    read_tile<of_rows>(left, rows, first_row, extents.rows, term, extents.terms);
    read_tile<of_columns>(right, columns, first_column, extents.columns, term, extents.terms);
    __syncthreads();
    for (int k = 0; k < product_depth; ++k)
      for (int i = 0; i < each; ++i)
        for (int j = 0; j < each; ++j) sums[i][j] += left[k][y + i * step] * right[k][x + j * step];
    __syncthreads();
  }
  for (int i = 0; i < each; ++i) {
    for (int j = 0; j < each; ++j) {
      const std::int64_t row = first_row + y + i * step;
      const std::int64_t column = first_column + x + j * step;
      if (row < extents.rows && column < extents.columns) finish(row, column, sums[i][j]);
    }
  }
}

/// Submits finish(row, column, Σ rows(row, term) · columns(column, term)) for each row and column.
/// @tparam of_rows  `second` if elements of a row lie next to each other, and so `of_columns`
template <Along of_rows, Along of_columns, typename Rows, typename Columns, typename Finish>
void multiply_matrices(const ProductExtents& extents, const Rows& rows, const Columns& columns, const Finish& finish,
                       Queue queue) {
  if (extents.rows <= 0 || extents.columns <= 0) return;
  const auto tiles = [](std::int64_t count) {
    return static_cast<unsigned>((count + product_tile - 1) / product_tile);
  };
  const dim3 grid(tiles(extents.rows), tiles(extents.columns));
  static_cast<void>(cudaGetLastError());
  multiply_tile<of_rows, of_columns, Rows, Columns, Finish>
      <<<grid, threads_per_block, 0, cuda_stream(queue)>>>(rows, columns, finish, extents);
  check_launch();
}

}  // namespace lockstep::ops::cuda
