// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/operators.hpp"
#include "ops/cuda/device/batch_norm.cuh"
#include "ops/cuda/device/tensor_view.hpp"

/// The functions that the kernels of a batch norm with a max pool compute. They round where two operators would.
namespace lockstep::ops::cuda {

/// The place of the largest element in a window of at most 255, counted row by row from the window's first element.
struct WindowPlace {
  using Stored = std::uint8_t;
};

/// The packs of a tensor, of which there are fewer than 2³¹: indices of 64 bits would take too many registers.
struct PackGrid {
  Divisor height;
  Divisor width;
  Divisor packs;  ///< of a position
  std::int64_t count;

  PackGrid(const TensorView& view, int pack_size)
      : height(view.height), width(view.width), packs(view.padded / pack_size), count(view.positions() * packs) {}

  struct Position {
    std::uint32_t sample;
    std::uint32_t row;
    std::uint32_t column;
    std::uint32_t pack;
  };
  [[nodiscard]] __device__ Position at(std::int64_t i) const {
    const ShortDivision pixel = divide_short(static_cast<std::uint32_t>(i), packs);
    const ShortDivision line = divide_short(pixel.quotient, width);
    const ShortDivision image = divide_short(line.quotient, height);
    return {image.quotient, image.remainder, line.remainder, pixel.remainder};
  }
  [[nodiscard]] __device__ std::uint32_t index(std::uint32_t sample, int row, int column, std::uint32_t pack) const {
    const auto line = sample * static_cast<std::uint32_t>(height) + static_cast<std::uint32_t>(row);
    const auto pixel = line * static_cast<std::uint32_t>(width) + static_cast<std::uint32_t>(column);
    return pixel * static_cast<std::uint32_t>(packs) + pack;
  }
};

/// The windows along an axis, without padding. An element is in two of them at most.
struct PooledAxis {
  int extent;
  int count;
  int kernel;
  int padding;
  Divisor stride;

  PooledAxis(std::int64_t elements, std::int64_t windows, std::int64_t window, std::int64_t step, std::int64_t zeros)
      : extent(static_cast<int>(elements)),
        count(static_cast<int>(windows)),
        kernel(static_cast<int>(window)),
        padding(static_cast<int>(zeros)),
        stride(step) {}

  [[nodiscard]] __device__ int begin(int window) const {
    const int begin = window * static_cast<int>(stride) - padding;
    return begin < 0 ? 0 : begin;
  }
  [[nodiscard]] __device__ int end(int window) const {
    const int end = window * static_cast<int>(stride) - padding + kernel;
    return end < extent ? end : extent;
  }
  /// The first window that an element may be in.
  [[nodiscard]] __device__ int first_of(int element) const {
    const int behind = element + padding - kernel;  // the last start of a window that ends before the element
    return behind < 0 ? 0 : static_cast<int>(divide_short(static_cast<std::uint32_t>(behind), stride).quotient) + 1;
  }
  [[nodiscard]] __device__ int last_of(int element) const {
    const auto last = static_cast<int>(divide_short(static_cast<std::uint32_t>(element + padding), stride).quotient);
    return last < count - 1 ? last : count - 1;
  }
};
struct PooledWindows {
  PooledAxis rows;
  PooledAxis columns;

  PooledWindows(const MaxPool& pool, const Shape& in, const Shape& out)
      : rows(in.height, out.height, pool.kernel.height, pool.stride.height, pool.padding.height),
        columns(in.width, out.width, pool.kernel.width, pool.stride.width, pool.padding.width) {}
};

/// Takes the largest normalized values of windows. Its packs are those of the result.
template <typename E, int size, Activation activation>
struct PoolNormalized {
  const void* from;
  void* to;
  StoredPack<WindowPlace, size>* places;  ///< may be null
  PackGrid x;
  PackGrid y;
  PooledWindows windows;
  LineSource source;

  static constexpr int batch = 1;
  static constexpr int blocks_of_multiprocessor = 2;
  struct Loaded {};
  __device__ PackLines<size> constants(std::int64_t pack) const { return source.template lines<size>(pack); }
  __device__ Loaded load(std::int64_t /*i*/) const { return {}; }
  __device__ void operator()(std::int64_t i, const Loaded& /*loaded*/, const PackLines<size>& lines) const {
    const PackGrid::Position at = y.at(i);
    const int left = windows.columns.begin(static_cast<int>(at.column));
    const int right = windows.columns.end(static_cast<int>(at.column));
    const int bottom = windows.rows.end(static_cast<int>(at.row));
    Pack<size> best{};
    StoredPack<WindowPlace, size> place{};
    std::uint8_t here = 0;
    for (int row = windows.rows.begin(static_cast<int>(at.row)); row < bottom; ++row) {
      // The packs of up to four columns are on their way before the first is compared.
      constexpr int ahead = 4;
      for (int column = left; column < right; column += ahead) {
        const std::uint32_t first = x.index(at.sample, row, column, at.pack);
        StoredPack<E, size> loaded[ahead];
        for (int k = 0; k < ahead; ++k)
          if (column + k < right) loaded[k] = load_stored<E, size>(from, first + k * static_cast<int>(x.packs));
        for (int k = 0; k < ahead; ++k)
          if (column + k < right) compare(normalized(loaded[k], lines), here++, best, place);
      }
    }
    store_pack<E, size>(to, i, best);
    if (places != nullptr) places[i] = place;
  }

  __device__ Pack<size> normalized(const StoredPack<E, size>& stored, const PackLines<size>& lines) const {
    Pack<size> values = widened(stored);
    for (int k = 0; k < size; ++k) values.at[k] = activated(activation, lines.of[k].at(values.at[k]));
    return widened(narrowed<E, size>(values));
  }
  static __device__ void compare(const Pack<size>& values, std::uint8_t here, Pack<size>& best,
                                 StoredPack<WindowPlace, size>& place) {
    for (int k = 0; k < size; ++k) {
      const float value = values.at[k];
      if (here > 0 && !(value > best.at[k] || value != value)) continue;  // NaN is the largest
      best.at[k] = value;
      place.at[k] = here;
    }
  }
};

/// The gradient before the activation, gathered from the windows that an element is in: at most two along each axis.
template <typename E, int size>
struct PooledGradient {
  const void* dy;
  const StoredPack<WindowPlace, size>* places;
  PackGrid x;
  PackGrid y;
  PooledWindows windows;
  Activation activation;

  static constexpr int most_batch = 1;
  static constexpr int most_windows = 4;
  static constexpr int no_place = 256;
  struct Loaded {
    StoredPack<E, size> dy[most_windows];
    StoredPack<WindowPlace, size> places[most_windows];
    int here[most_windows];  ///< the element's place in the window, or `no_place`
  };
  __device__ Loaded load(std::int64_t i) const {
    const PackGrid::Position at = x.at(i);
    const auto row = static_cast<int>(at.row);
    const auto column = static_cast<int>(at.column);
    const int first_row = windows.rows.first_of(row);
    const int last_row = windows.rows.last_of(row);
    const int first_column = windows.columns.first_of(column);
    const int last_column = windows.columns.last_of(column);
    Loaded loaded;
    for (int k = 0; k < most_windows; ++k) {
      const int down = first_row + k / 2;
      const int right = first_column + k % 2;
      const bool is_inside = down <= last_row && right <= last_column;
      const int left = windows.columns.begin(right);
      const int width = windows.columns.end(right) - left;
      loaded.here[k] = is_inside ? (row - windows.rows.begin(down)) * width + column - left : no_place;
      // Another window's values, where there is none, cost less than a branch.
      const std::uint32_t o = y.index(at.sample, min(down, last_row), min(right, last_column), at.pack);
      loaded.dy[k] = load_stored<E, size>(dy, o);
      loaded.places[k] = places[o];
    }
    return loaded;
  }
  __device__ Pack<size> of(const Loaded& loaded, const Pack<size>& values, const PackLines<size>& lines) const {
    Pack<size> gradient{};
    for (int k = 0; k < most_windows; ++k) {
      const Pack<size> term = widened(loaded.dy[k]);
      for (int c = 0; c < size; ++c)
        if (loaded.places[k].at[c] == loaded.here[k]) gradient.at[c] += term.at[c];
    }
    gradient = widened(narrowed<E, size>(gradient));
    if (activation == Activation::none) return gradient;
    for (int c = 0; c < size; ++c)
      if (!passes(activation, lines.of[c].at(values.at[c]))) gradient.at[c] = 0;
    return gradient;
  }
};

}  // namespace lockstep::ops::cuda
