// SPDX-License-Identifier: Apache-2.0
// The checksums are of what Pillow 12 makes of the same picture, by its module ImageEnhance, and of what torchvision's
// adjust_hue makes with it. mpi-scripts/parity/pictures.sh compares all colors.
#include "vision/image/color.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

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

TEST(Color, BecomesPillowsGray) {
  EXPECT_EQ(checksum_after([](Image& picture, int) { to_gray(picture); }, 0), 0x6383454CU);
  EXPECT_EQ(gray_of(255, 255, 255), 255);
  EXPECT_EQ(gray_of(0, 0, 0), 0);
  EXPECT_EQ(gray_of(255, 0, 0), 76);
}

}  // namespace
}  // namespace lockstep::vision
