// SPDX-License-Identifier: Apache-2.0
#include "kernels/depthwise.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/vectorized.hpp"

namespace lockstep::kernels {
namespace {

template <int lanes>
struct VectorOf;
template <>
struct VectorOf<8> {
  using Type [[gnu::vector_size(32)]] = float;
};
template <>
struct VectorOf<16> {
  using Type [[gnu::vector_size(64)]] = float;
};

/// The positions of a row of the result whose windows lie inside the rows of x.
struct Inside {
  std::int64_t begin;
  std::int64_t end;
};
Inside inside_of(const DepthwiseExtents& e) {
  const std::int64_t begin = std::min((e.padding_width + e.stride_width - 1) / e.stride_width, e.out_width);
  const std::int64_t last = e.width + e.padding_width - e.kernel;  // the last window's first column, with the padding
  return {begin, std::max(begin, std::min(e.out_width, last < 0 ? 0 : last / e.stride_width + 1))};
}

/// Adds the products of one row of the result and one row of x to the sums of a row of the window.
template <int lanes, int kernel>
LOCKSTEP_INLINE void add_row(const float* x, const float* d_out, const DepthwiseExtents& e, const Inside& inside,
                             typename VectorOf<lanes>::Type* row) {
  using Vector = typename VectorOf<lanes>::Type;
  Vector sums[kernel];
  for (int k = 0; k < kernel; ++k) sums[k] = row[k];
  const auto add_at_edge = [&](std::int64_t out) {
    Vector gradient;
    std::memcpy(&gradient, d_out + out * lanes, sizeof gradient);
    for (int k = 0; k < kernel; ++k) {
      const std::int64_t column = out * e.stride_width + k - e.padding_width;
      if (column < 0 || column >= e.width) continue;
      Vector value;
      std::memcpy(&value, x + column * lanes, sizeof value);
      sums[k] += value * gradient;
    }
  };
  for (std::int64_t out = 0; out < inside.begin; ++out) add_at_edge(out);
  for (std::int64_t out = inside.begin; out < inside.end; ++out) {
    Vector gradient;
    std::memcpy(&gradient, d_out + out * lanes, sizeof gradient);
    const float* const window = x + (out * e.stride_width - e.padding_width) * lanes;
#pragma GCC unroll 8
    for (int k = 0; k < kernel; ++k) {
      Vector value;
      std::memcpy(&value, window + k * lanes, sizeof value);
      sums[k] += value * gradient;
    }
  }
  for (std::int64_t out = inside.end; out < e.out_width; ++out) add_at_edge(out);
  for (int k = 0; k < kernel; ++k) row[k] = sums[k];
}

template <int lanes, int kernel>
LOCKSTEP_INLINE void gradient_of_group(const float* x, const float* d_out, const DepthwiseExtents& e,
                                       std::int64_t group, float* gradient) {
  using Vector = typename VectorOf<lanes>::Type;
  const Inside inside = inside_of(e);
  Vector total[kernel * kernel] = {};
  for (std::int64_t image = 0; image < e.images; ++image) {
    const std::int64_t block = image * e.groups + group;
    Vector of_image[kernel * kernel] = {};
    for (std::int64_t out = 0; out < e.out_height; ++out) {
      for (int k = 0; k < kernel; ++k) {
        const std::int64_t row = out * e.stride_height + k - e.padding_height;
        if (row < 0 || row >= e.height) continue;
        add_row<lanes, kernel>(x + (block * e.height + row) * e.width * lanes,
                               d_out + (block * e.out_height + out) * e.out_width * lanes, e, inside,
                               of_image + k * kernel);
      }
    }
    for (int k = 0; k < kernel * kernel; ++k) total[k] += of_image[k];
  }
  for (int k = 0; k < kernel * kernel; ++k) {
    for (int lane = 0; lane < lanes; ++lane) gradient[(group * lanes + lane) * kernel * kernel + k] = total[k][lane];
  }
}

LOCKSTEP_VECTORISED
void group_8_3(const float* x, const float* d_out, const DepthwiseExtents& e, std::int64_t group, float* gradient) {
  gradient_of_group<8, 3>(x, d_out, e, group, gradient);
}
LOCKSTEP_VECTORISED
void group_8_5(const float* x, const float* d_out, const DepthwiseExtents& e, std::int64_t group, float* gradient) {
  gradient_of_group<8, 5>(x, d_out, e, group, gradient);
}
LOCKSTEP_VECTORISED
void group_16_3(const float* x, const float* d_out, const DepthwiseExtents& e, std::int64_t group, float* gradient) {
  gradient_of_group<16, 3>(x, d_out, e, group, gradient);
}
LOCKSTEP_VECTORISED
void group_16_5(const float* x, const float* d_out, const DepthwiseExtents& e, std::int64_t group, float* gradient) {
  gradient_of_group<16, 5>(x, d_out, e, group, gradient);
}

}  // namespace

void depthwise_weight_gradient(const float* x, const float* d_out, const DepthwiseExtents& extents,
                               std::int64_t first_group, std::int64_t end_group, float* gradient) {
  const bool is_wide = extents.lanes == 16;
  const auto of_group = extents.kernel == 3 ? (is_wide ? group_16_3 : group_8_3) : (is_wide ? group_16_5 : group_8_5);
  for (std::int64_t group = first_group; group < end_group; ++group) of_group(x, d_out, extents, group, gradient);
}

}  // namespace lockstep::kernels
