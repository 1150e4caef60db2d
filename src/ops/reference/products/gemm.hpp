// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::ops::reference {

/// A view of a matrix; a transposed view swaps the strides.
template <typename T>
struct Matrix {
  T* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride = 1;

  [[nodiscard]] Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  [[nodiscard]] T* at(std::int64_t row, std::int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

/// The rows of A and columns of B that are multiplied at a time. The columns fill a vector.
inline constexpr std::int64_t tile_rows = 4;
template <typename T>
inline constexpr std::int64_t tile_columns = 64 / sizeof(T);

/// Computes sums (tile_rows × tile_columns) = Σ rows[·][k · stride] · panel[k · tile_columns + ·] over k < inner,
/// ascending.
void multiply_tile(const float* const* rows, std::int64_t stride, std::int64_t inner, const float* panel, float* sums);
void multiply_tile(const double* const* rows, std::int64_t stride, std::int64_t inner, const double* panel,
                   double* sums);

/// Computes C += A·B, tile by tile. Each element adds its products in ascending order of the inner index, whatever its
/// tile.
/// @cost 2·rows·columns·inner operations
template <typename T>
class Gemm {
 public:
  void add_product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c) {
    if (a.columns == 0) return;  // matrices without elements may have no memory
    for (std::int64_t column = 0; column < c.columns; column += width) {
      pack(b, column);
      for (std::int64_t row = 0; row < c.rows; row += tile_rows) add_tile(a, c, row, column);
    }
  }

 private:
  static constexpr std::int64_t width = tile_columns<T>;

  /// Copies a tile's columns of B so that they are contiguous; zeros beyond the last column.
  void pack(const Matrix<const T>& b, std::int64_t column) {
    panel_.resize(static_cast<std::size_t>(b.rows * width));
    for (std::int64_t k = 0; k < b.rows; ++k) {
      for (std::int64_t j = 0; j < width; ++j) {
        panel_[static_cast<std::size_t>(k * width + j)] = column + j < b.columns ? *b.at(k, column + j) : T{0};
      }
    }
  }

  void add_tile(const Matrix<const T>& a, const Matrix<T>& c, std::int64_t row, std::int64_t column) {
    const std::int64_t rows = std::min(tile_rows, c.rows - row);
    const std::int64_t columns = std::min(width, c.columns - column);
    // Rows beyond the last repeat it; their sums are not stored.
    const T* a_rows[tile_rows];
    for (std::int64_t i = 0; i < tile_rows; ++i) a_rows[i] = a.at(std::min(row + i, c.rows - 1), 0);
    T sums[tile_rows * width];
    multiply_tile(a_rows, a.column_stride, a.columns, panel_.data(), sums);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) *c.at(row + i, column + j) += sums[i * width + j];
    }
  }

  std::vector<T> panel_;
};

}  // namespace lockstep::ops::reference
