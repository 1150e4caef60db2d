// SPDX-License-Identifier: Apache-2.0
// The checksums are of what Pillow 12 makes of the same pictures, by crop() and resize(…, BILINEAR).
// mpi-scripts/parity/pictures.sh compares more.
#include "vision/image/resize.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include "support/errors.hpp"
#include "vision/image/flip.hpp"
#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

std::uint32_t checksum(const Image& picture) {
  return static_cast<std::uint32_t>(crc32(0, picture.pixels.data(), static_cast<uInt>(picture.pixels.size())));
}

TEST(Resize, GivesPillowsBytes) {
  struct Row {
    int width, height, channels;
    Region region;
    int to_width, to_height;
    std::uint32_t expected;
  };
  const Row rows[] = {
      {640, 480, 3, {0, 0, 640, 480}, 299, 224, 0xF88111CC}, {640, 480, 1, {0, 0, 640, 480}, 299, 224, 0xA74157ED},
      {97, 61, 3, {5, 7, 80, 50}, 224, 224, 0xF4BCB19B},     {33, 33, 3, {0, 0, 33, 33}, 32, 32, 0x156396E3},
      {33, 20, 3, {1, 1, 31, 18}, 31, 7, 0x89CDAAC2},        {33, 20, 3, {1, 1, 31, 18}, 5, 18, 0x38C7FB08},
      {33, 20, 3, {2, 1, 31, 18}, 31, 18, 0x01C9DC21},       {5, 3, 3, {0, 0, 5, 3}, 9, 11, 0x22ED671F},
      {7, 40, 1, {0, 0, 7, 40}, 3, 100, 0xBBEDD128},         {1, 1, 3, {0, 0, 1, 1}, 4, 4, 0xFABB2B95},
      {300, 200, 3, {0, 0, 300, 200}, 1, 1, 0xE48F5C43},     {64, 48, 1, {3, 3, 50, 40}, 20, 50, 0x5E3D9BBD},
  };
  Image resized;
  for (const Row& row : rows) {
    resize(patterned(row.width, row.height, row.channels), row.region, row.to_width, row.to_height, resized);
    EXPECT_EQ(resized.width, row.to_width);
    EXPECT_EQ(resized.height, row.to_height);
    EXPECT_EQ(checksum(resized), row.expected)
        << row.width << "×" << row.height << " to " << row.to_width << "×" << row.to_height;
  }
}

TEST(Resize, ByCubicConvolutionGivesPillowsBytes) {
  struct Row {
    int width, height, channels, to_width, to_height;
    std::uint32_t expected;
  };
  const Row rows[] = {{640, 480, 3, 299, 224, 0x43FAE1BD}, {97, 61, 1, 224, 224, 0x3E5CE26F},
                      {33, 20, 3, 31, 7, 0x5E39D634},      {33, 20, 3, 5, 18, 0x6046C28D},
                      {64, 85, 1, 49, 64, 0xF15067D1},     {5, 3, 3, 9, 11, 0xD7237B8F},
                      {1, 1, 3, 4, 4, 0xFABB2B95}};
  Image resized;
  for (const Row& row : rows) {
    resize_bicubic(patterned(row.width, row.height, row.channels), row.to_width, row.to_height, resized);
    EXPECT_EQ(checksum(resized), row.expected)
        << row.width << "×" << row.height << " to " << row.to_width << "×" << row.to_height;
  }
}

/// Few rows take another way through the code than many.
TEST(Resize, TreatsRowsAlikeInSmallAndLargePictures) {
  for (const int channels : {1, 3}) {
    const Image tall = patterned(70, 40, channels);
    Image whole;
    Image part;
    resize(tall, {0, 0, 70, 40}, 50, 40, whole);
    for (const int rows : {1, 15, 16, 17, 33}) {
      resize(tall, {0, 3, 70, rows}, 50, rows, part);
      for (int y = 0; y < rows; ++y)
        EXPECT_TRUE(std::equal(part.row(y).begin(), part.row(y).end(), whole.row(y + 3).begin())) << rows << ", " << y;
    }
  }
}

TEST(Resize, OfOneColorKeepsIt) {
  Image picture;
  picture.resize(50, 40, 3);
  Image resized;
  for (const int value : {0, 1, 127, 254, 255}) {
    std::fill(picture.pixels.begin(), picture.pixels.end(), static_cast<std::uint8_t>(value));
    for (const auto& [width, height] : {std::pair{1, 1}, {49, 39}, {7, 93}, {200, 3}}) {
      resize(picture, width, height, resized);
      EXPECT_EQ(std::count(resized.pixels.begin(), resized.pixels.end(), value), 3 * width * height);
    }
  }
}

TEST(Resize, OfAWindowIsThatPartOfTheWhole) {
  for (const int channels : {1, 3}) {
    for (const auto& [width, height] : {std::pair{40, 30}, {83, 61}, {83, 30}, {40, 61}, {150, 20}, {9, 7}}) {
      const Image picture = patterned(83, 61, channels);
      Image whole;
      resize(picture, width, height, whole);
      for (const Region& window :
           {Region{0, 0, width, height}, {3, 2, width - 4, height - 5}, {width - 1, 0, 1, 1}, {0, height - 3, 5, 3}}) {
        Image to = patterned(170, 70, channels);
        const Image before = to;
        resize_into(picture, width, height, window, to, 11, 4);
        for (int y = 0; y < 70; ++y) {
          for (int i = 0; i < 170 * channels; ++i) {
            const int x = i / channels;
            const bool is_in = x >= 11 && x < 11 + window.width && y >= 4 && y < 4 + window.height;
            const int expected =
                is_in ? whole.row(y - 4 + window.top)[i + (window.left - 11) * channels] : before.row(y)[i];
            ASSERT_EQ(to.row(y)[i], expected) << width << "×" << height << " at " << x << "," << y;
          }
        }
      }
    }
  }
  Image to = patterned(20, 20, 3);
  const Image picture = patterned(8, 6, 3);
  for (const Region& window : {Region{-1, 0, 4, 4}, {0, 0, 17, 4}, {0, 0, 0, 4}, {0, 0, 8, 4}})
    EXPECT_EQ(code_of([&] { resize_into(picture, 16, 12, window, to, 14, 0); }), ErrorCode::invalid_argument);
}

TEST(Resize, RefusesRegionsOutsideOfThePicture) {
  const Image picture = patterned(8, 6, 3);
  Image to;
  for (const Region& region : {Region{-1, 0, 4, 4}, {0, 0, 9, 4}, {5, 0, 4, 4}, {0, 3, 4, 4}, {0, 0, 0, 4}})
    EXPECT_EQ(code_of([&] { resize(picture, region, 4, 4, to); }), ErrorCode::invalid_argument);
  expect_error(
      [&] {
        resize(picture, {2, 1, 3, 4}, 0, 4, to);
      },
      ErrorCode::invalid_argument, {"3×4 at 2,1 of a picture of 8×6 cannot become 0×4"});
}

TEST(Flip, ExchangesLeftAndRight) {
  for (const int channels : {1, 3}) {
    for (const int width : {1, 2, 5}) {
      const Image picture = patterned(width, 3, channels);
      Image flipped = picture;
      flip(flipped);
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < width; ++x)
          for (int c = 0; c < channels; ++c)
            EXPECT_EQ(flipped.row(y)[x * channels + c], picture.row(y)[(width - 1 - x) * channels + c]);
      flip(flipped);
      EXPECT_EQ(flipped.pixels, picture.pixels);
    }
  }
}

}  // namespace
}  // namespace lockstep::vision
