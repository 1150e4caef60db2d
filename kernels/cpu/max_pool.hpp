// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/max_pool.hpp"
#include "simd.hpp"

namespace lockstep::kernels {
namespace {

constexpr std::int32_t no_place = most_of_pool_window;

/// Reduces `lanes` channels of the window that begins at x.
template <int lanes>
LOCKSTEP_INLINE void pool_window(const PoolGrid& grid, const float* x, float* y, std::uint8_t* place) {
  using Values = Pack<float, lanes>;
  using Places = Pack<std::int32_t, lanes>;
  auto largest = load<Values>(reinterpret_cast<const char*>(x));
  Places at{};
  std::int32_t here = 0;
  for (std::int64_t row = 0; row < grid.window_rows; ++row) {
    for (std::int64_t column = 0; column < grid.window_columns; ++column, ++here) {
      const float* in = x + (row * grid.columns + column) * grid.lanes;
      __builtin_prefetch(in + 1024);  // convolutions write past the caches, so the input comes from memory
      const auto value = load<Values>(reinterpret_cast<const char*>(in));
      const auto wins = (value > largest) | (value != value);
      at = wins ? Places{} + here : at;
      largest = wins ? value : largest;
    }
  }
  if (grid.relu) {
    at = largest > Values{} ? at : Places{} + no_place;
    largest = largest < Values{} ? Values{} : largest;
  }
  store(reinterpret_cast<char*>(y), largest);
  if (place != nullptr) store(reinterpret_cast<char*>(place), converted<std::uint8_t, lanes>(at));
}

template <int lanes>
LOCKSTEP_INLINE void spread_window(const PoolGrid& grid, const std::uint8_t* place, const float* dy, float* dx) {
  using Values = Pack<float, lanes>;
  const auto at = converted<std::int32_t, lanes>(load<Pack<std::uint8_t, lanes>>(reinterpret_cast<const char*>(place)));
  const auto gradient = load<Values>(reinterpret_cast<const char*>(dy));
  std::int32_t here = 0;
  for (std::int64_t row = 0; row < grid.window_rows; ++row) {
    for (std::int64_t column = 0; column < grid.window_columns; ++column, ++here) {
      float* out = dx + (row * grid.columns + column) * grid.lanes;
      const Values value = at == here ? gradient : Values{};
      store(reinterpret_cast<char*>(out), value);
    }
  }
}

/// Calls `f<lanes>(offset of the window's first element, offset of its result)` for all channels of all windows.
template <typename F>
LOCKSTEP_INLINE void for_each_window(const PoolGrid& grid, const F& f) {
  constexpr int lanes = lanes_of<float>;
  std::int64_t out = 0;
  for (std::int64_t plane = 0; plane < grid.planes; ++plane) {
    for (std::int64_t row = 0; row + grid.window_rows <= grid.rows; row += grid.window_rows) {
      const std::int64_t line = (plane * grid.rows + row) * grid.columns;
      for (std::int64_t column = 0; column + grid.window_columns <= grid.columns; column += grid.window_columns) {
        const std::int64_t in = (line + column) * grid.lanes;
        std::int64_t lane = 0;
        for (; lanes > 1 && lane + lanes <= grid.lanes; lane += lanes) f.template run<lanes>(in + lane, out + lane);
        for (; lane < grid.lanes; ++lane) f.template run<1>(in + lane, out + lane);
        out += grid.lanes;
      }
    }
  }
}

struct PoolWindow {
  const PoolGrid& grid;
  const float* x;
  float* y;
  std::uint8_t* places;
  template <int lanes>
  LOCKSTEP_INLINE void run(std::int64_t in, std::int64_t out) const {
    pool_window<lanes>(grid, x + in, y + out, places == nullptr ? nullptr : places + out);
  }
};

struct SpreadWindow {
  const PoolGrid& grid;
  const std::uint8_t* places;
  const float* dy;
  float* dx;
  template <int lanes>
  LOCKSTEP_INLINE void run(std::int64_t in, std::int64_t out) const {
    spread_window<lanes>(grid, places + out, dy + out, dx + in);
  }
};

void max_pool_loops(const PoolGrid& grid, const float* x, float* y, std::uint8_t* places) {
  for_each_window(grid, PoolWindow{grid, x, y, places});
}

void max_pool_backward_loops(const PoolGrid& grid, const std::uint8_t* places, const float* dy, float* dx) {
  if (grid.rows % grid.window_rows != 0 || grid.columns % grid.window_columns != 0) {
    const std::int64_t elements = grid.planes * grid.rows * grid.columns * grid.lanes;
    for (std::int64_t i = 0; i < elements; ++i) dx[i] = 0;
  }
  for_each_window(grid, SpreadWindow{grid, places, dy, dx});
}

}  // namespace
}  // namespace lockstep::kernels
