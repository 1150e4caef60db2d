// SPDX-License-Identifier: Apache-2.0
// Two passes, first along rows and then along columns, with values rounded to bytes in between, as Pillow has them.
// Both add up rows of bytes with weights, which vectorizes. For the first pass 16 rows at a time are transposed, so
// that what lay along a row then lies in 16·channels bytes below each other.
#include "vision/image/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/vectorized.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

constexpr int weight_bits = 22;  // of the fixed-point weights; a sum of bytes times weights fits 31 bits
constexpr int lanes = 16;        // rows that are transposed together

/// For each place in the result, the places that it is a weighted mean of.
struct Filter {
  int most = 0;                       // weights from one place to the next
  std::vector<int> first;             // by place
  std::vector<int> count;             // by place
  std::vector<std::int32_t> weights;  // places × most

  [[nodiscard]] const std::int32_t* weights_of(int place) const {
    return weights.data() + static_cast<std::size_t>(place) * most;
  }
};

/// Adds 1/2 away from zero and cuts off, as Pillow does. std::lround differs where the sum is inexact.
int rounded(double value) {
  constexpr double half = 0.5;
  return static_cast<int>(value < 0 ? value - half : value + half);
}

/// Gives the weight of a pixel by its distance from the place that is interpolated, in pixels of the smaller picture.
struct Weighting {
  double reach;  // beyond which the weight is 0
  double (*weight)(double distance);
};
constexpr Weighting linear{.reach = 1, .weight = [](double x) { return std::max(1.0 - std::abs(x), 0.0); }};
/// @source Keys: Cubic Convolution Weighting for Digital Image Processing, 1981, with a = −1/2
constexpr Weighting cubic{.reach = 2, .weight = [](double x) {
                            constexpr double a = -0.5;
                            x = std::abs(x);
                            if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
                            return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
                          }};

/// One axis: `from` pixels become `to`, of which those from `begin` to `end` − 1 are made.
struct AxisExtent {
  int from = 0;
  int to = 0;
  int begin = 0;
  int end = 0;
  [[nodiscard]] int count() const { return end - begin; }
  [[nodiscard]] bool changes() const { return from != to; }
};

/// @param exact  memory that is used again
void make_filter(const AxisExtent& axis, const Weighting& weighting, Filter& filter, std::vector<double>& exact) {
  const auto [from, to, first_place, last_place] = axis;
  const double scale = static_cast<double>(from) / to;
  const double unit = std::max(scale, 1.0);
  const double inverse_unit = 1.0 / unit;
  const double width = weighting.reach * unit;
  filter.most = static_cast<int>(std::ceil(width)) * 2 + 1;
  filter.first.resize(axis.count());
  filter.count.resize(axis.count());
  filter.weights.assign(static_cast<std::size_t>(axis.count()) * filter.most, 0);
  exact.resize(filter.most);
  for (int place = first_place; place < last_place; ++place) {
    const double center = (place + 0.5) * scale;
    const int begin = std::max(rounded(center - width), 0);
    const int end = std::min(rounded(center + width), from);
    double sum = 0;
    for (int i = begin; i < end; ++i) {
      exact[i - begin] = weighting.weight((i - center + 0.5) * inverse_unit);
      sum += exact[i - begin];
    }
    const int made = place - first_place;
    std::int32_t* weights = filter.weights.data() + static_cast<std::size_t>(made) * filter.most;
    for (int i = 0; i < end - begin; ++i) weights[i] = rounded(exact[i] / sum * (1 << weight_bits));
    filter.first[made] = begin;
    filter.count[made] = end - begin;
  }
}

/// Makes the filter of an axis, counted from the first pixel that it needs. An axis that does not change needs none.
/// @return the pixels that it needs, as the first one and their number
std::pair<int, int> needed_pixels(const AxisExtent& axis, const Weighting& weighting, Filter& filter,
                                  std::vector<double>& exact) {
  if (!axis.changes()) return {axis.begin, axis.count()};
  make_filter(axis, weighting, filter, exact);
  const int first = filter.first.front();
  const int count = filter.first.back() + filter.count.back() - first;
  for (int& place : filter.first) place -= first;
  return {first, count};
}

/// Adds `rows` rows of `count` bytes, which are `stride` apart, times their weights to sums.
template <int rows>
LOCKSTEP_INLINE void add_rows(const std::uint8_t* from, std::ptrdiff_t stride, const std::int32_t* weights, int count,
                              std::int32_t* sums) {
  for (int i = 0; i < count; ++i) {
    std::int32_t sum = sums[i];
    for (int row = 0; row < rows; ++row) sum += weights[row] * from[row * stride + i];
    sums[i] = sum;
  }
}

/// Writes the weighted mean of rows of `columns` bytes. Only `count` of them are computed.
template <int columns>
LOCKSTEP_INLINE void average_rows(const std::uint8_t* from, std::ptrdiff_t stride, const std::int32_t* weights,
                                  int rows, std::uint8_t* to, int count = columns) {
  std::int32_t sums[columns];
  for (int i = 0; i < count; ++i) sums[i] = 1 << (weight_bits - 1);
  int row = 0;
  for (; row + 4 <= rows; row += 4) add_rows<4>(from + row * stride, stride, weights + row, count, sums);
  if (row + 2 <= rows) {
    add_rows<2>(from + row * stride, stride, weights + row, count, sums);
    row += 2;
  }
  if (row < rows) add_rows<1>(from + row * stride, stride, weights + row, count, sums);
  for (int i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(std::clamp(sums[i] >> weight_bits, 0, 255));
}

using Lanes [[gnu::vector_size(lanes)]] = std::uint8_t;

/// Rows of bytes.
template <typename Byte>
struct Rows {
  Byte* begin;
  std::ptrdiff_t stride;  // from one to the next

  LOCKSTEP_INLINE Byte* operator[](std::ptrdiff_t row) const { return begin + row * stride; }
};
using Input = Rows<const std::uint8_t>;
using Output = Rows<std::uint8_t>;

/// Transposes 16×16 bytes: four times the two halves are interleaved.
LOCKSTEP_INLINE void transpose(Input from, Output to) {
  Lanes rows[2][lanes];
  for (int i = 0; i < lanes; ++i) std::memcpy(&rows[0][i], from[i], lanes);
  for (int stage = 0; stage < 4; ++stage) {
    const Lanes* in = rows[stage % 2];
    Lanes* out = rows[1 - stage % 2];
    for (int i = 0; i < lanes / 2; ++i) {
      out[2 * i] = __builtin_shufflevector(in[i], in[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      out[2 * i + 1] =
          __builtin_shufflevector(in[i], in[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
  }
  for (int i = 0; i < lanes; ++i) std::memcpy(to[i], &rows[0][i], lanes);
}

/// Where to begin in steps of `step`, so that the last step ends at the end. `end` is at least `step`.
LOCKSTEP_INLINE std::ptrdiff_t last_begin(std::ptrdiff_t begin, std::ptrdiff_t step, std::ptrdiff_t end) {
  return std::min(begin, end - step);
}

/// What a thread works with. Its memory is used again for the next picture.
struct Workspace {
  Filter horizontal, vertical;
  std::vector<double> exact;
  std::vector<std::uint8_t> columns;  // 16 rows of the region, transposed
  std::vector<std::uint8_t> means;    // and what becomes of them
  std::vector<std::uint8_t> resized;  // the result of the first pass
};

/// Resizes along rows, of which there are at least 16, as there are bytes in each row before and after.
template <int channels>
LOCKSTEP_INLINE void resize_rows(Input from, int height, int width, const Filter& filter, Workspace& workspace,
                                 Output to) {
  constexpr int pixel = channels * lanes;  // bytes of a column of pixels
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{width} * channels;
  const auto places = static_cast<std::ptrdiff_t>(filter.first.size());
  const std::ptrdiff_t to_bytes = places * channels;
  workspace.columns.resize(row_bytes * lanes);
  workspace.means.resize(to_bytes * lanes);
  std::uint8_t* columns = workspace.columns.data();
  std::uint8_t* means = workspace.means.data();
  for (std::ptrdiff_t y = 0; y < height; y += lanes) {
    const std::ptrdiff_t row = last_begin(y, lanes, height);
    for (std::ptrdiff_t x = 0; x < row_bytes; x += lanes) {
      const std::ptrdiff_t at = last_begin(x, lanes, row_bytes);
      transpose({from[row] + at, from.stride}, {columns + at * lanes, lanes});
    }
    for (std::ptrdiff_t place = 0; place < places; ++place) {
      average_rows<pixel>(columns + filter.first[place] * pixel, pixel, filter.weights_of(static_cast<int>(place)),
                          filter.count[place], means + place * pixel);
    }
    for (std::ptrdiff_t x = 0; x < to_bytes; x += lanes) {
      const std::ptrdiff_t at = last_begin(x, lanes, to_bytes);
      transpose({means + at * lanes, lanes}, {to[row] + at, to.stride});
    }
  }
}

LOCKSTEP_VECTORISED void resize_rows_1(Input from, int height, int width, const Filter& filter, Workspace& workspace,
                                       Output to) {
  resize_rows<1>(from, height, width, filter, workspace, to);
}
LOCKSTEP_VECTORISED void resize_rows_3(Input from, int height, int width, const Filter& filter, Workspace& workspace,
                                       Output to) {
  resize_rows<3>(from, height, width, filter, workspace, to);
}

/// Resizes along rows of small pictures.
void resize_few_rows(Input from, int height, int channels, const Filter& filter, Output to) {
  for (int y = 0; y < height; ++y) {
    for (std::size_t place = 0; place < filter.first.size(); ++place) {
      for (int c = 0; c < channels; ++c) {
        average_rows<1>(from[y] + filter.first[place] * channels + c, channels,
                        filter.weights_of(static_cast<int>(place)), filter.count[place],
                        to[y] + static_cast<std::ptrdiff_t>(place) * channels + c);
      }
    }
  }
}

/// Resizes along columns.
LOCKSTEP_VECTORISED void resize_columns(Input from, int row_bytes, const Filter& filter, Output to) {
  constexpr int block = 64;
  for (std::size_t place = 0; place < filter.first.size(); ++place) {
    const std::uint8_t* rows = from[filter.first[place]];
    const std::int32_t* weights = filter.weights_of(static_cast<int>(place));
    std::uint8_t* out = to[static_cast<std::ptrdiff_t>(place)];
    if (row_bytes < block) {
      average_rows<block>(rows, from.stride, weights, filter.count[place], out, row_bytes);
      continue;
    }
    for (std::ptrdiff_t x = 0; x < row_bytes; x += block) {
      const std::ptrdiff_t at = last_begin(x, block, row_bytes);
      average_rows<block>(rows + at, from.stride, weights, filter.count[place], out + at);
    }
  }
}

void check_region(const Image& from, const Region& region, int width, int height) {
  const bool is_inside = region.left >= 0 && region.top >= 0 && region.width >= 1 && region.height >= 1 &&
                         region.width <= from.width - region.left && region.height <= from.height - region.top;
  if (is_inside && width >= 1 && height >= 1) return;
  throw Error(ErrorCode::invalid_argument,
              "a region of " + std::to_string(region.width) + "×" + std::to_string(region.height) + " at " +
                  std::to_string(region.left) + "," + std::to_string(region.top) + " of a picture of " +
                  std::to_string(from.width) + "×" + std::to_string(from.height) + " cannot become " +
                  std::to_string(width) + "×" + std::to_string(height));
}

/// The first pass, over a part of the rows and columns. @return the rows for the second one
Input resize_all_rows(Input from, int height, int width, int channels, Workspace& workspace, Output to) {
  const Filter& filter = workspace.horizontal;
  if (height < lanes || std::min<std::ptrdiff_t>(width, std::ssize(filter.first)) * channels < lanes) {
    resize_few_rows(from, height, channels, filter, to);
  } else if (channels == 1) {
    resize_rows_1(from, height, width, filter, workspace, to);
  } else {
    resize_rows_3(from, height, width, filter, workspace, to);
  }
  return {to.begin, to.stride};
}

/// Makes a part of the result. @param from  where the region that is resized begins
void resize_axes(Input from, int channels, const AxisExtent& across, const AxisExtent& down, Output out,
                 const Weighting& weighting = linear) {
  thread_local Workspace workspace;
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{across.count()} * channels;
  const auto [column, columns] = needed_pixels(across, weighting, workspace.horizontal, workspace.exact);
  const auto [row, rows] = needed_pixels(down, weighting, workspace.vertical, workspace.exact);
  Input in{from[row] + std::ptrdiff_t{column} * channels, from.stride};
  if (across.changes()) {
    if (down.changes()) workspace.resized.resize(rows * row_bytes);
    in = resize_all_rows(in, rows, columns, channels, workspace,
                         down.changes() ? Output{workspace.resized.data(), row_bytes} : out);
  } else if (!down.changes()) {
    for (int y = 0; y < rows; ++y) std::memcpy(out[y], in[y], row_bytes);
  }
  if (down.changes()) resize_columns(in, static_cast<int>(row_bytes), workspace.vertical, out);
}
Input rows_of(const Image& picture) {
  return {picture.pixels.data(), static_cast<std::ptrdiff_t>(picture.row_bytes())};
}

}  // namespace

void resize(const Image& from, const Region& region, int width, int height, Image& to) {
  check_region(from, region, width, height);
  to.resize(width, height, from.channels);
  const Input in = rows_of(from);
  resize_axes({in[region.top] + std::ptrdiff_t{region.left} * from.channels, in.stride}, from.channels,
              {region.width, width, 0, width}, {region.height, height, 0, height},
              {to.pixels.data(), static_cast<std::ptrdiff_t>(to.row_bytes())});
}

void resize_bicubic(const Image& from, int width, int height, Image& to) {
  check_region(from, {0, 0, from.width, from.height}, width, height);
  to.resize(width, height, from.channels);
  resize_axes(rows_of(from), from.channels, {from.width, width, 0, width}, {from.height, height, 0, height},
              {to.pixels.data(), static_cast<std::ptrdiff_t>(to.row_bytes())}, cubic);
}

void resize_into(const Image& from, int width, int height, const Region& window, Image& to, int left, int top) {
  const auto lies_in = [](int begin, int extent, int all) {
    return begin >= 0 && extent >= 1 && extent <= all - begin;
  };
  if (!lies_in(window.left, window.width, width) || !lies_in(window.top, window.height, height) ||
      !lies_in(left, window.width, to.width) || !lies_in(top, window.height, to.height))
    throw Error(ErrorCode::invalid_argument, "a window of " + std::to_string(window.width) + "×" +
                                                 std::to_string(window.height) + " of " + std::to_string(width) + "×" +
                                                 std::to_string(height) + " pixels does not fit at " +
                                                 std::to_string(left) + "," + std::to_string(top));
  const auto stride = static_cast<std::ptrdiff_t>(to.row_bytes());
  resize_axes(rows_of(from), from.channels, {from.width, width, window.left, window.left + window.width},
              {from.height, height, window.top, window.top + window.height},
              {to.pixels.data() + top * stride + std::ptrdiff_t{left} * to.channels, stride});
}

void resize_nearest(const Image& from, const Region& region, int width, int height, Image& to) {
  check_region(from, region, width, height);
  const auto nearest = [](int position, std::int64_t from_extent, std::int64_t to_extent) {
    return static_cast<int>((2 * position + 1) * from_extent / (2 * to_extent));
  };
  to.resize(width, height, 1);
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* in = from.row(region.top + nearest(y, region.height, height)).data() + region.left;
    const auto out = to.row(y);
    for (int x = 0; x < width; ++x) out[x] = in[nearest(x, region.width, width)];
  }
}

}  // namespace lockstep::vision
