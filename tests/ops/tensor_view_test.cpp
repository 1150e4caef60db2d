// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/tensor_view.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>

namespace lockstep::ops::cuda {
namespace {

void expect_divides(std::int64_t dividend, std::int64_t by) {
  const Division found = divide(dividend, Divisor(by));
  EXPECT_EQ(found.quotient, dividend / by) << dividend << " / " << by;
  EXPECT_EQ(found.remainder, dividend % by) << dividend << " % " << by;
}

TEST(Divisor, DividesAsTheProcessorDoes) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  for (const std::int64_t by : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{8},
                                std::int64_t{641}, std::int64_t{65536}, std::int64_t{65537}, limit / 2, limit / 2 + 1,
                                limit - 1, limit, limit + 1, std::int64_t{1} << 40}) {
    for (const std::int64_t times : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, limit / by, 2 * limit / by})
      for (const std::int64_t more : {-1, 0, 1})
        if (times * by + more >= 0) expect_divides(times * by + more, by);
    for (const std::int64_t dividend : {limit - 1, limit, std::numeric_limits<std::int64_t>::max()})
      expect_divides(dividend, by);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<int>(random() % 31);
    expect_divides(static_cast<std::int64_t>(random() % limit), static_cast<std::int64_t>(random() >> (33 + bits)) + 1);
  }
}

TEST(Divisor, IsItsNumber) {
  EXPECT_EQ(Divisor(12) * 2, 24);
  EXPECT_EQ(Divisor(), 0);
}

}  // namespace
}  // namespace lockstep::ops::cuda
