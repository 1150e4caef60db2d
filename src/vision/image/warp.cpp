// SPDX-License-Identifier: Apache-2.0
#include "vision/image/warp.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/vectorized.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

constexpr int position_bits = 32;  // of the fraction of a position
constexpr int fraction_bits = 8;   // of which these are used
constexpr std::uint32_t whole_weight = 1U << fraction_bits;
constexpr std::uint32_t half_of_sums = 1U << (2 * fraction_bits - 1);

/// A position along an axis, from the middle of the first pixel, as a linear function of a pixel of the result.
struct Position {
  std::int64_t origin = 0;
  std::int64_t per_column = 0;
  std::int64_t per_row = 0;

  [[nodiscard]] std::int64_t at(int x, int y) const { return origin + per_column * x + per_row * y; }
};

int pixel_of(std::int64_t position) { return static_cast<int>(position >> position_bits); }
std::uint32_t weight_of(std::int64_t position) {
  return static_cast<std::uint32_t>(position >> (position_bits - fraction_bits)) & (whole_weight - 1);
}

/// @throws Error{invalid_argument} if a position would leave the range of integers
Position position_of(double per_column, double per_row, double offset, int width, int height) {
  constexpr double most = 1 << 30;
  constexpr double unit = 4294967296.0;  // 2³²
  if (!(std::abs(per_column) * width + std::abs(per_row) * height + std::abs(offset) < most))
    throw Error(ErrorCode::invalid_argument, "a picture cannot be warped by more than 2³⁰ pixels");
  const auto fixed = [](double value) { return static_cast<std::int64_t>(std::floor(value * unit + 0.5)); };
  return {fixed(offset + 0.5 * per_column + 0.5 * per_row - 0.5), fixed(per_column), fixed(per_row)};
}

/// Where a column of the result comes from.
struct Column {
  std::ptrdiff_t left = 0;  // element of the left one of the two pixels in the row of sums
  std::uint32_t weight = 0;
};

/// What a thread works with. Its memory is used again for the next picture.
struct WarpWorkspace {
  std::vector<Column> columns;
  std::vector<std::uint16_t> sums;  // a row between two rows, with a pixel of the fill before it and two behind it
  std::vector<std::uint8_t> fill;   // a row of pixels beyond the picture
};

LOCKSTEP_VECTORISED void add_two_rows(const std::uint8_t* upper, const std::uint8_t* lower, std::uint32_t weight,
                                      std::size_t count, std::uint16_t* sums) {
  const auto of_lower = static_cast<std::uint16_t>(weight);
  const auto of_upper = static_cast<std::uint16_t>(whole_weight - weight);
  for (std::size_t i = 0; i < count; ++i)
    sums[i] = static_cast<std::uint16_t>(upper[i] * of_upper + lower[i] * of_lower);
}

template <int channels>
void add_columns(const std::uint16_t* sums, std::span<const Column> columns, std::uint8_t* to) {
  for (const auto& [left, weight] : columns) {
    for (int channel = 0; channel < channels; ++channel) {
      const std::uint16_t* pair = sums + left + channel;
      to[channel] = static_cast<std::uint8_t>(
          (pair[0] * (whole_weight - weight) + pair[channels] * weight + half_of_sums) >> (2 * fraction_bits));
    }
    to += channels;
  }
}

void find_columns(const Image& from, const Position& across, int width, std::vector<Column>& columns) {
  columns.resize(static_cast<std::size_t>(width));
  for (int x = 0; x < width; ++x) {
    const std::int64_t position = across.at(x, 0);
    const int pixel = pixel_of(position);
    const bool is_outside = pixel < -1 || pixel >= from.width;  // both of its pixels are beyond the edge
    columns[static_cast<std::size_t>(x)] = {std::ptrdiff_t{std::clamp(pixel, -1, from.width) + 1} * from.channels,
                                            is_outside ? 0 : weight_of(position)};
  }
}

/// Warps without rotation and shear: first between rows, then between columns, without rounding between them.
template <int channels>
void warp_axes(const Image& from, const Position& across, const Position& down, std::uint8_t fill, Image& to) {
  thread_local WarpWorkspace workspace;
  std::vector<Column>& columns = workspace.columns;
  std::vector<std::uint16_t>& sums = workspace.sums;
  std::vector<std::uint8_t>& beyond = workspace.fill;
  find_columns(from, across, to.width, columns);
  sums.assign(static_cast<std::size_t>(from.width + 3) * channels, static_cast<std::uint16_t>(fill * whole_weight));
  beyond.assign(from.row_bytes(), fill);
  const auto [least, most] = std::ranges::minmax(columns, {}, &Column::left);
  const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(least.left - channels, 0);
  const std::ptrdiff_t end = std::min<std::ptrdiff_t>(most.left + channels, std::ssize(beyond));
  const auto row_of = [&](int y) { return y < 0 || y >= from.height ? beyond.data() : from.row(y).data(); };
  for (int y = 0; y < to.height; ++y) {
    const std::int64_t position = down.at(0, y);
    const int row = pixel_of(position);
    if (row < -1 || row >= from.height || begin >= end) {
      std::ranges::fill(to.row(y), fill);
      continue;
    }
    add_two_rows(row_of(row) + begin, row_of(row + 1) + begin, weight_of(position),
                 static_cast<std::size_t>(end - begin), sums.data() + channels + begin);
    add_columns<channels>(sums.data(), columns, to.row(y).data());
  }
}

/// Warps by any map.
template <int channels>
void warp_points(const Image& from, const Position& across, const Position& down, std::uint8_t fill, Image& to) {
  const auto is_in = [&](int x, int y) { return x >= 0 && y >= 0 && x < from.width && y < from.height; };
  for (int y = 0; y < to.height; ++y) {
    std::uint8_t* pixel = to.row(y).data();
    for (int x = 0; x < to.width; ++x, pixel += channels) {
      const std::int64_t at[2] = {across.at(x, y), down.at(x, y)};
      const int left = pixel_of(at[0]);
      const int top = pixel_of(at[1]);
      const std::uint32_t right_weight = weight_of(at[0]);
      const std::uint32_t lower_weight = weight_of(at[1]);
      for (int channel = 0; channel < channels; ++channel) {
        const auto value = [&](int column, int row) -> std::uint32_t {
          if (!is_in(column, row)) return fill;
          return from.row(row)[static_cast<std::size_t>(column) * channels + channel];
        };
        const auto in_column = [&](int column) {
          return value(column, top) * (whole_weight - lower_weight) + value(column, top + 1) * lower_weight;
        };
        pixel[channel] = static_cast<std::uint8_t>(
            (in_column(left) * (whole_weight - right_weight) + in_column(left + 1) * right_weight + half_of_sums) >>
            (2 * fraction_bits));
      }
    }
  }
}

}  // namespace

void warp(const Image& from, const AffineMap& map, int width, int height, std::uint8_t fill, Image& to) {
  if (width < 1 || height < 1 || from.width < 1 || from.height < 1)
    throw Error(ErrorCode::invalid_argument, "a picture of " + std::to_string(from.width) + "×" +
                                                 std::to_string(from.height) + " pixels cannot be warped to " +
                                                 std::to_string(width) + "×" + std::to_string(height));
  const Position across = position_of(map.xx, map.xy, map.x0, width, height);
  const Position down = position_of(map.yx, map.yy, map.y0, width, height);
  to.resize(width, height, from.channels);
  const bool is_along_axes = across.per_row == 0 && down.per_column == 0;
  if (from.channels == 1) return (is_along_axes ? warp_axes<1> : warp_points<1>)(from, across, down, fill, to);
  (is_along_axes ? warp_axes<3> : warp_points<3>)(from, across, down, fill, to);
}

void warp_nearest(const Image& from, const AffineMap& map, int width, int height, std::uint8_t fill, Image& to) {
  to.resize(width, height, 1);
  for (int row = 0; row < height; ++row) {
    const auto out = to.row(row);
    for (int column = 0; column < width; ++column) {
      const double x = map.xx * (column + 0.5) + map.xy * (row + 0.5) + map.x0;
      const double y = map.yx * (column + 0.5) + map.yy * (row + 0.5) + map.y0;
      const bool is_inside = x >= 0 && y >= 0 && x < from.width && y < from.height;
      out[column] = is_inside ? from.row(static_cast<int>(y))[static_cast<std::size_t>(x)] : fill;
    }
  }
}

}  // namespace lockstep::vision
