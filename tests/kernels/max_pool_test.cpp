// SPDX-License-Identifier: Apache-2.0
#include "kernels/max_pool.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_written = 99;

/// Returns values many of which are equal, and most of which are negative.
std::vector<float> many_ties(std::int64_t count, std::size_t salt) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((7 * i * i + salt * i) % 11) - 8.0F;
  return values;
}

struct PooledPlanes {
  std::vector<float> y;
  std::vector<float> dx;
};

/// Pools element by element, as it is defined.
PooledPlanes pooled_by_definition(const PoolGrid& g, const std::vector<float>& x, const std::vector<float>& dy) {
  PooledPlanes result{std::vector<float>(dy.size()), std::vector<float>(x.size())};
  const std::int64_t out_columns = g.columns / g.window_columns;
  const std::int64_t out_rows = g.rows / g.window_rows;
  for (std::size_t out = 0; out < dy.size(); ++out) {
    const auto o = static_cast<std::int64_t>(out);
    const std::int64_t lane = o % g.lanes;
    const std::int64_t window = o / g.lanes % (out_rows * out_columns);
    const std::int64_t plane = o / g.lanes / (out_rows * out_columns);
    std::size_t best = x.size();
    for (std::int64_t i = 0; i < g.window_rows * g.window_columns; ++i) {
      const std::int64_t row = window / out_columns * g.window_rows + i / g.window_columns;
      const std::int64_t column = window % out_columns * g.window_columns + i % g.window_columns;
      const auto at = static_cast<std::size_t>(((plane * g.rows + row) * g.columns + column) * g.lanes + lane);
      if (best == x.size() || x[at] > x[best] || std::isnan(x[at])) best = at;
    }
    const bool cut = g.relu && !(x[best] > 0);
    result.y[out] = cut && !std::isnan(x[best]) ? 0 : x[best];
    if (!cut) result.dx[best] = dy[out];
  }
  return result;
}

bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

void check_pool(const InstructionSet& set, const PoolGrid& grid) {
  const std::int64_t out_count =
      grid.planes * (grid.rows / grid.window_rows) * (grid.columns / grid.window_columns) * grid.lanes;
  std::vector<float> x = many_ties(grid.planes * grid.rows * grid.columns * grid.lanes, 3);
  x[5] = x[x.size() / 2] = std::nanf("");
  x[9] = -infinity;
  x[x.size() / 3] = infinity;
  const std::vector<float> dy = many_ties(out_count, 5);
  const PooledPlanes right = pooled_by_definition(grid, x, dy);
  std::vector<float> y(dy.size(), not_written);
  std::vector<float> dx(x.size(), not_written);
  std::vector<std::uint8_t> places(dy.size());
  set.max_pool(grid, x.data(), y.data(), places.data());
  EXPECT_TRUE(is_same(y, right.y));
  set.max_pool_backward(grid, places.data(), dy.data(), dx.data());
  EXPECT_TRUE(is_same(dx, right.dx));
  y.assign(y.size(), not_written);
  set.max_pool(grid, x.data(), y.data(), nullptr);
  EXPECT_TRUE(is_same(y, right.y));
}

TEST(MaxPool, TakesTheFirstOfTheLargestAndGivesItTheGradient) {
  for (const InstructionSet* set : instruction_sets()) {
    for (const std::int64_t lanes : {8, 16, 21}) {
      for (const bool relu : {false, true}) {
        for (const PoolGrid& grid : {PoolGrid{5, 8, 6, 2, 2, lanes, relu}, PoolGrid{2, 7, 7, 2, 2, lanes, relu},
                                     PoolGrid{3, 9, 5, 3, 1, lanes, relu}, PoolGrid{2, 17, 15, 17, 15, lanes, relu}}) {
          SCOPED_TRACE(testing::Message() << set->name << ", " << grid.rows << "×" << grid.columns << " in blocks of "
                                          << lanes << (relu ? ", ReLU" : ""));
          check_pool(*set, grid);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
