// SPDX-License-Identifier: Apache-2.0
#include "vision/image/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vision/image/font.hpp"

namespace lockstep::vision {
namespace {

Image empty(int width, int height, int channels = 1) {
  Image picture;
  picture.resize(width, height, channels);
  std::fill(picture.pixels.begin(), picture.pixels.end(), std::uint8_t{7});
  return picture;
}

/// Shows a picture of one channel: '.' is what `empty` has, '#' is white, and 'o' another value.
std::string shown(const Image& picture) {
  std::string text;
  for (int y = 0; y < picture.height; ++y) {
    for (const std::uint8_t value : picture.row(y)) text += value == 7 ? '.' : value == 255 ? '#' : 'o';
    text += '\n';
  }
  return text;
}

constexpr Color bright{255, 255, 255};

TEST(Draw, RectanglesAlongTheirInside) {
  Image picture = empty(7, 6);
  draw_rectangle({1, 1, 5, 4}, 1, bright, picture);
  EXPECT_EQ(shown(picture), ".......\n.#####.\n.#...#.\n.#...#.\n.#####.\n.......\n");
  picture = empty(7, 6);
  draw_rectangle({0, 0, 7, 6}, 2, bright, picture);
  EXPECT_EQ(shown(picture), "#######\n#######\n##...##\n##...##\n#######\n#######\n");
  picture = empty(4, 3);
  draw_rectangle({1, 1, 2, 1}, 9, bright, picture);
  EXPECT_EQ(shown(picture), "....\n.##.\n....\n");
}

TEST(Draw, LeavesOutWhatIsBeyondTheEdges) {
  Image picture = empty(4, 4);
  draw_rectangle({-2, 1, 4, 9}, 1, bright, picture);
  EXPECT_EQ(shown(picture), "....\n##..\n.#..\n.#..\n");
  draw_rectangle({1000, -50, 5, 5}, 3, bright, picture);
  fill({2'000'000'000, 0, 2'000'000'000, 1}, bright, picture);
  EXPECT_EQ(shown(picture), "....\n##..\n.#..\n.#..\n");
}

TEST(Draw, ColorsOnThreeChannelsAndBrightnessOnOne) {
  Image color = empty(1, 1, 3);
  fill({0, 0, 1, 1}, {10, 20, 30}, color);
  EXPECT_EQ(color.pixels, (std::vector<std::uint8_t>{10, 20, 30}));
  Image gray = empty(1, 1);
  fill({0, 0, 1, 1}, {255, 0, 0}, gray);
  EXPECT_EQ(gray.pixels, std::vector<std::uint8_t>{76});
}

TEST(Draw, LabelsInAFontOfEightBySixteen) {
  Image picture = empty(10, 18);
  draw_label("A", 1, 1, {0, 0, 0}, picture);
  EXPECT_EQ(
      shown(picture),
      "..........\n.oooooooo.\n.oooooooo.\n.oooooooo.\n.oooooooo.\n.ooo##ooo.\n.oo#oo#oo.\n.o#oooo#o.\n.o#oooo#o.\n"
      ".o#oooo#o.\n.o######o.\n.o#oooo#o.\n.o#oooo#o.\n.o#oooo#o.\n.oooooooo.\n.oooooooo.\n.oooooooo.\n..........\n");
}

TEST(Draw, LabelsInsideThePictureWhereTheyFit) {
  Image expected = empty(24, 20);
  draw_label("ab", 8, 4, {}, expected);
  Image picture = empty(24, 20);
  draw_label("ab", 100, 100, {}, picture);
  EXPECT_EQ(shown(picture), shown(expected));
  Image narrow = empty(5, 5);
  draw_label("a long text", -3, -3, {}, narrow);  // has no room
  EXPECT_EQ(shown(narrow).find('.'), std::string::npos);
}

TEST(Draw, CharactersOutsideOfAsciiAsHollowBoxes) {
  const Glyph& box = glyph_of(0x6F22);
  EXPECT_EQ(&glyph_of(U'\n'), &box);
  EXPECT_EQ(&glyph_of(0x7F), &box);
  EXPECT_NE(&glyph_of(U'~'), &box);
  EXPECT_EQ(text_width("漢字ü!"), 4 * 8);
  EXPECT_EQ(text_width("\xFF\xC3"), 2 * 8) << "bytes that are no UTF-8";
  EXPECT_EQ(text_width(""), 0);
  Image unknown = empty(8, 16);
  Image character = empty(8, 16);
  draw_label("\xE6", 0, 0, {}, unknown);
  draw_label("é", 0, 0, {}, character);
  EXPECT_EQ(shown(unknown), shown(character));
}

TEST(Draw, PicturesSideBySide) {
  const std::vector<Image> pictures{empty(2, 1), empty(3, 2), empty(1, 1)};
  Image sheet;
  put_side_by_side(pictures, 2, 1, sheet);
  EXPECT_EQ(shown(sheet), "..##...\n####...\n#######\n.######\n#######\n");
  put_side_by_side(std::vector<Image>{empty(1, 1), empty(1, 1, 3)}, 5, 0, sheet);
  EXPECT_EQ(sheet.channels, 3);
  EXPECT_EQ(sheet.pixels, std::vector<std::uint8_t>(6, 7));
  put_side_by_side({}, 3, 2, sheet);
  EXPECT_EQ(sheet.pixels.size(), 0U);
}

TEST(Draw, NeighboringClassesInDifferentColors) {
  for (int label = -1; label < 30; ++label) {
    const Color a = class_color(label);
    const Color b = class_color(label + 1);
    EXPECT_TRUE(a.red != b.red || a.green != b.green || a.blue != b.blue) << label;
  }
}

TEST(Draw, MasksAsHalfOfTheColorsOfTheirClasses) {
  Image picture;
  picture.resize(3, 1, 3);
  std::ranges::fill(picture.pixels, std::uint8_t{100});
  Image mask;
  mask.resize(3, 1, 1);
  mask.pixels[0] = 0;
  mask.pixels[1] = 1;
  mask.pixels[2] = left_out_pixel;
  draw_mask(mask, picture);
  const std::vector<std::uint8_t> mixed(picture.pixels.begin(), picture.pixels.end());
  EXPECT_EQ(mixed, (std::vector<std::uint8_t>{50, 50, 50, 114, 50, 50, 100, 100, 100})) << "black, (128, 0, 0), none";
}

TEST(ClassPalette, IsThatOfPascalVoc) {
  const auto palette = class_palette();
  using Entry = std::array<std::uint8_t, 3>;
  EXPECT_EQ(palette[0], (Entry{0, 0, 0}));
  EXPECT_EQ(palette[1], (Entry{128, 0, 0}));
  EXPECT_EQ(palette[2], (Entry{0, 128, 0}));
  EXPECT_EQ(palette[15], (Entry{192, 128, 128}));
  EXPECT_EQ(palette[20], (Entry{0, 64, 128}));
  EXPECT_EQ(palette[255], (Entry{224, 224, 192}));
}

}  // namespace
}  // namespace lockstep::vision
