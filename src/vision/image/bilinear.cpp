// SPDX-License-Identifier: Apache-2.0
#include "vision/image/bilinear.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::vision {
namespace {

constexpr int weight_of_one = 2048;  // the weights are in fixed point

/// The two pixels of an axis that one of the result lies between, with their weights.
struct Neighbors {
  int first = 0;
  int second = 0;
  int weight_of_first = weight_of_one;
  int weight_of_second = 0;
};

int rounded_to_even(float value) { return static_cast<int>(std::lrintf(value)); }

/// @param splits_ends  whether a pixel beyond the ends is made of the last one twice, each part rounded down, as OpenCV
///                     has it across rows
void find_neighbors(int from, int to, bool splits_ends, std::vector<Neighbors>& all) {
  all.resize(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const auto position = static_cast<float>((i + 0.5) * scale - 0.5);
    const auto before = static_cast<int>(std::floor(position));
    const bool is_beyond = before < 0 || before >= from - 1;
    const float part = is_beyond && !splits_ends ? 0 : position - static_cast<float>(before);
    all[static_cast<std::size_t>(i)] = {std::clamp(before, 0, from - 1), std::clamp(before + 1, 0, from - 1),
                                        rounded_to_even((1 - part) * weight_of_one),
                                        rounded_to_even(part * weight_of_one)};
  }
}

/// Interpolates along a row. @param sums  `weight_of_one` times the values
void interpolate_row(const Image& from, int y, const std::vector<Neighbors>& columns, std::vector<int>& sums) {
  const auto row = from.row(y);
  const auto channels = static_cast<std::size_t>(from.channels);
  sums.resize(columns.size() * channels);
  for (std::size_t x = 0; x < columns.size(); ++x) {
    const auto& [first, second, weight_of_first, weight_of_second] = columns[x];
    for (std::size_t c = 0; c < channels; ++c)
      sums[x * channels + c] = row[static_cast<std::size_t>(first) * channels + c] * weight_of_first +
                               row[static_cast<std::size_t>(second) * channels + c] * weight_of_second;
  }
}

/// The value of two rows of sums with their weights. OpenCV drops these bits in between.
std::uint8_t between(int first, int second, const Neighbors& rows) {
  const int sum = (rows.weight_of_first * (first >> 4) >> 16) + (rows.weight_of_second * (second >> 4) >> 16);
  return static_cast<std::uint8_t>(std::clamp((sum + 2) >> 2, 0, 255));
}

}  // namespace

void resize_bilinear(const Image& from, int width, int height, Image& to) {
  thread_local std::vector<Neighbors> columns;
  thread_local std::vector<Neighbors> rows;
  thread_local std::vector<int> first;
  thread_local std::vector<int> second;
  find_neighbors(from.width, width, false, columns);
  find_neighbors(from.height, height, true, rows);
  to.resize(width, height, from.channels);
  for (int y = 0; y < height; ++y) {
    const Neighbors& neighbors = rows[static_cast<std::size_t>(y)];
    interpolate_row(from, neighbors.first, columns, first);
    interpolate_row(from, neighbors.second, columns, second);
    const auto row = to.row(y);
    for (std::size_t i = 0; i < first.size(); ++i) row[i] = between(first[i], second[i], neighbors);
  }
}

}  // namespace lockstep::vision
