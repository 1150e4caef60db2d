// SPDX-License-Identifier: Apache-2.0
// The checksums are of what Pillow 12 makes of the same picture, by its module ImageEnhance, and of what torchvision's
// adjust_hue makes with it. mpi-scripts/parity/pictures.sh compares all colors.
#include "vision/image/color.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>

#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

template <typename Change, typename Amount>
std::uint32_t checksum_after(Change change, Amount amount, int channels = 3) {
  Image picture = patterned(64, 48, channels);
  change(picture, amount);
  return static_cast<std::uint32_t>(crc32(0, picture.pixels.data(), static_cast<uInt>(picture.pixels.size())));
}

TEST(Color, IsAdjustedToPillowsBytes) {
  const auto check = [](auto change, const std::vector<std::uint32_t>& expected) {
    const float factors[] = {0, 0.6F, 1, 1.4F};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(checksum_after(change, factors[i]), expected[i]) << factors[i];
    EXPECT_EQ(checksum_after(change, 1.4F, 1), expected[4]);
  };
  check(adjust_brightness, {0xCBF86111, 0xB6A94D35, 0xD17932B4, 0xE3584BC0, 0xC325FBC3});
  check(adjust_contrast, {0xB87C7F0B, 0xEE93C8C6, 0xD17932B4, 0x3EE8B007, 0xA6A88907});
  check(adjust_saturation, {0x289C0E20, 0x29DA14FA, 0xD17932B4, 0x193AEC91, 0xA7185366});
}

TEST(Color, HasItsHueTurnedToTorchvisionsBytes) {
  const std::pair<double, std::uint32_t> turns[] = {
      {-0.5, 0x168D19E4}, {-0.1, 0x2BB4BCD6}, {0.1, 0xB76090D8}, {0.5, 0xCD9A8D8E}};
  for (const auto& [turn, expected] : turns) EXPECT_EQ(checksum_after(adjust_hue, turn), expected) << turn;
  EXPECT_EQ(checksum_after(adjust_hue, 0.3, 1), checksum_after(adjust_brightness, 1.0F, 1)) << "gray has no hue";
}

/// The color after its hue, saturation and value are multiplied, by colorsys of Python.
TEST(Color, HasHueSaturationAndValueMultiplied) {
  struct Row {
    std::array<int, 3> color;
    std::array<float, 3> factors;
    std::array<int, 3> expected;
  };
  for (const auto& [color, factors, expected] :
       {Row{{200, 120, 40}, {1, 1, 1}, {200, 120, 40}}, Row{{200, 120, 40}, {1.015F, 1, 1}, {200, 121, 40}},
        Row{{30, 60, 200}, {0.9F, 0.5F, 1.2F}, {138, 195, 240}}, Row{{200, 10, 90}, {1.1F, 1.7F, 0.5F}, {100, 14, 0}},
        Row{{255, 0, 10}, {1.01F, 1, 1}, {255, 5, 0}}, Row{{90, 90, 90}, {1.5F, 1.7F, 1.4F}, {126, 126, 126}},
        Row{{0, 0, 0}, {0.5F, 1.7F, 1.4F}, {0, 0, 0}}, Row{{250, 255, 240}, {1, 0, 1.4F}, {255, 255, 255}}}) {
    Image picture;
    picture.resize(70, 1, 3);  // more than a block
    for (std::size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<std::uint8_t>(color[i % 3]);
    scale_hsv(picture, factors[0], factors[1], factors[2]);
    for (std::size_t i = 0; i < picture.pixels.size(); ++i) ASSERT_EQ(picture.pixels[i], expected[i % 3]) << i;
  }
  Image gray = patterned(9, 4, 1);
  Image brighter = gray;
  scale_hsv(gray, 1.2F, 0.5F, 1.3F);
  adjust_brightness(brighter, 1.3F);
  EXPECT_EQ(gray.pixels, brighter.pixels);
}

/// The bytes must be the same on every machine.
TEST(Color, MultipliedByFactorsHasTheBytesOfOtherMachines) {
  const auto scale = [](Image& picture, float factor) { scale_hsv(picture, factor, 1.5F, 0.8F); };
  EXPECT_EQ(checksum_after(scale, 0.985F), 1585351153U);
  EXPECT_EQ(checksum_after(scale, 1.2F), 2377623169U);
}

TEST(Color, BecomesPillowsGray) {
  EXPECT_EQ(checksum_after([](Image& picture, int) { to_gray(picture); }, 0), 0x6383454CU);
  EXPECT_EQ(gray_of(255, 255, 255), 255);
  EXPECT_EQ(gray_of(0, 0, 0), 0);
  EXPECT_EQ(gray_of(255, 0, 0), 76);
}

}  // namespace
}  // namespace lockstep::vision
