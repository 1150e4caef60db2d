// SPDX-License-Identifier: Apache-2.0
#include "ops/reference/products/gemm.hpp"

#include "kernels/vectorized.hpp"

namespace lockstep::ops::reference {
namespace {

/// Each row has an array, and the loop over columns is not unrolled before the compiler vectorizes it. So the sums stay
/// in registers and are added in the order written here.
template <typename T>
LOCKSTEP_INLINE void multiply_tile_of(const T* const* rows, std::int64_t stride, std::int64_t inner,
                                      const T* __restrict panel, T* __restrict sums) {
  constexpr std::int64_t width = tile_columns<T>;
  static_assert(tile_rows == 4);
  T a[width] = {};
  T b[width] = {};
  T c[width] = {};
  T d[width] = {};
  for (std::int64_t k = 0; k < inner; ++k, panel += width) {
    const T of_a = rows[0][k * stride];
    const T of_b = rows[1][k * stride];
    const T of_c = rows[2][k * stride];
    const T of_d = rows[3][k * stride];
#pragma GCC unroll 1
    for (std::int64_t j = 0; j < width; ++j) {
      a[j] += of_a * panel[j];
      b[j] += of_b * panel[j];
      c[j] += of_c * panel[j];
      d[j] += of_d * panel[j];
    }
  }
  for (std::int64_t j = 0; j < width; ++j) {
    sums[j] = a[j];
    sums[width + j] = b[j];
    sums[2 * width + j] = c[j];
    sums[3 * width + j] = d[j];
  }
}

}  // namespace

LOCKSTEP_VECTORISED
void multiply_tile(const float* const* rows, std::int64_t stride, std::int64_t inner, const float* panel, float* sums) {
  multiply_tile_of(rows, stride, inner, panel, sums);
}

LOCKSTEP_VECTORISED
void multiply_tile(const double* const* rows, std::int64_t stride, std::int64_t inner, const double* panel,
                   double* sums) {
  multiply_tile_of(rows, stride, inner, panel, sums);
}

}  // namespace lockstep::ops::reference
