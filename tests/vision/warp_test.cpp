// SPDX-License-Identifier: Apache-2.0
#include "vision/image/warp.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "support/errors.hpp"
#include "vision/pattern_source.hpp"

namespace lockstep::vision {
namespace {

constexpr std::uint8_t surrounding = 114;

/// Interpolates in double precision.
double interpolated(const Image& picture, const AffineMap& map, int x, int y, int channel) {
  const double u = map.xx * (x + 0.5) + map.xy * (y + 0.5) + map.x0 - 0.5;
  const double v = map.yx * (x + 0.5) + map.yy * (y + 0.5) + map.y0 - 0.5;
  const int left = static_cast<int>(std::floor(u));
  const int top = static_cast<int>(std::floor(v));
  const auto value = [&](int column, int row) -> double {
    if (column < 0 || row < 0 || column >= picture.width || row >= picture.height) return surrounding;
    return picture.row(row)[static_cast<std::size_t>(column * picture.channels + channel)];
  };
  const double right = u - left;
  const double lower = v - top;
  return (value(left, top) * (1 - right) + value(left + 1, top) * right) * (1 - lower) +
         (value(left, top + 1) * (1 - right) + value(left + 1, top + 1) * right) * lower;
}

TEST(Warp, InterpolatesBetweenPixels) {
  for (const int channels : {1, 3}) {
    Image picture = pattern(41, 29, channels);
    for (std::uint8_t& byte : picture.pixels) byte = static_cast<std::uint8_t>(byte / 8 * 3);  // neighbors are near
    for (const AffineMap& map : {AffineMap{}, AffineMap{.xx = 0.7, .x0 = 3.3, .yy = 1.9, .y0 = -4.4},
                                 AffineMap{.xx = -1, .x0 = 41, .yy = 0.25, .y0 = 20.5},
                                 AffineMap{.xx = 3.7, .x0 = -30, .yy = 0.01, .y0 = 28.2},
                                 AffineMap{.xx = 0.8, .xy = 0.6, .x0 = -7, .yx = -0.6, .yy = 0.8, .y0 = 9},
                                 AffineMap{.x0 = 300, .y0 = 5}, AffineMap{.x0 = 5, .y0 = -300}}) {
      Image to;
      warp(picture, map, 33, 37, surrounding, to);
      ASSERT_EQ(to.pixels.size(), static_cast<std::size_t>(33 * 37 * channels));
      for (int y = 0; y < 37; ++y)
        for (int i = 0; i < 33 * channels; ++i)
          ASSERT_NEAR(to.row(y)[static_cast<std::size_t>(i)], interpolated(picture, map, i / channels, y, i % channels),
                      1.5)
              << map.xx << " at " << i / channels << "," << y;
    }
    Image same;
    warp(picture, {}, 41, 29, surrounding, same);
    EXPECT_EQ(same.pixels, picture.pixels);
  }
}

/// The way without rotation must give the same bytes as the general one. Positions lie in the middle between two
/// fractions that are told apart, so the least rotation that counts does not move them to another one.
TEST(Warp, HasTheSameBytesWithAndWithoutRotation) {
  constexpr double least = 1.0 / (std::int64_t{1} << 32);
  for (const int channels : {1, 3}) {
    const Image picture = pattern(60, 50, channels);
    for (const AffineMap& map : {AffineMap{.xx = 0.75, .x0 = 1.0 / 512, .yy = 1.25, .y0 = 1.0 / 512 - 4},
                                 AffineMap{.xx = 1.5, .x0 = 1.0 / 512 - 9, .yy = 0.5, .y0 = 1.0 / 512 + 3}}) {
      AffineMap turned = map;
      turned.xy = least;
      Image straight;
      Image other;
      warp(picture, map, 48, 44, surrounding, straight);
      warp(picture, turned, 48, 44, surrounding, other);
      EXPECT_EQ(straight.pixels, other.pixels) << map.xx;
    }
  }
}

TEST(Warp, HasTheBytesOfOtherMachines) {
  const Image picture = pattern(60, 50);
  const auto checksum = [&](const AffineMap& map) {
    Image to;
    warp(picture, map, 48, 44, surrounding, to);
    return crc32(0, to.pixels.data(), static_cast<uInt>(to.pixels.size()));
  };
  EXPECT_EQ(checksum({.xx = 1 / 1.3, .x0 = -3.2, .yy = 1 / 1.3, .y0 = 7.7}), 2201326232U);
  EXPECT_EQ(checksum({.xx = 0.9, .xy = 0.2, .x0 = -3.2, .yx = -0.1, .yy = 1.1, .y0 = 7.7}), 841285357U);
}

TEST(Warp, RefusesWhatCannotBeComputed) {
  Image to;
  expect_error([&] { warp(pattern(4, 4), {}, 0, 4, surrounding, to); }, ErrorCode::invalid_argument, {"4×4", "0×4"});
  expect_error([&] { warp(pattern(4, 4), {.x0 = 1e10}, 4, 4, surrounding, to); }, ErrorCode::invalid_argument, {"2³⁰"});
  expect_error([&] { warp(pattern(4, 4), {.yy = NAN}, 4, 4, surrounding, to); }, ErrorCode::invalid_argument, {"2³⁰"});
}

}  // namespace
}  // namespace lockstep::vision
