// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <random>

#include "support/errors.hpp"
#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

constexpr int adobe_marker = 0xEE;

/// Returns the largest difference of two pictures' bytes; 256 if their extents differ.
int distance(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height || a.channels != b.channels) return 256;
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

Image filled(int width, int height, const std::vector<std::uint8_t>& pixel) {
  Image picture;
  picture.resize(width, height, static_cast<int>(pixel.size()));
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = pixel[i % pixel.size()];
  return picture;
}

TEST(Jpeg, OfGrayHasOneChannelOrThree) {
  const File file = make_jpeg(blocks());
  EXPECT_LE(distance(decoded(file, {.channels = 0}), blocks()), 1);
  EXPECT_LE(distance(decoded(file, {.channels = 1}), blocks()), 1);
  const Image color = decoded(file);
  ASSERT_EQ(color.channels, 3);
  for (std::size_t i = 0; i < color.pixels.size(); i += 3) {
    ASSERT_EQ(color.pixels[i], color.pixels[i + 1]);
    ASSERT_EQ(color.pixels[i], color.pixels[i + 2]);
  }
}

TEST(Jpeg, OfColorsKeepsThem) {
  const Image picture = filled(20, 10, {200, 30, 90});
  for (const int subsampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411}) {
    for (const bool is_progressive : {false, true}) {
      const File file = make_jpeg(picture, {subsampling, 100, is_progressive});
      EXPECT_LE(distance(decoded(file), picture), 2) << subsampling;
      EXPECT_LE(distance(decoded(file, {.channels = 1}), filled(20, 10, {88})), 2) << subsampling;
      EXPECT_EQ(decoded(file, {.channels = 0}).channels, 3);
    }
  }
}

TEST(Jpeg, ThatIsProgressiveHasThePixelsOfABaselineOne) {
  const Image picture = patterned(61, 43, 3);
  for (const int subsampling : {TJSAMP_444, TJSAMP_420}) {
    const Image baseline = decoded(make_jpeg(picture, {subsampling, 90, false}));
    EXPECT_EQ(decoded(make_jpeg(picture, {subsampling, 90, true})).pixels, baseline.pixels);
  }
}

/// Adobe's marker says that 255 is no ink.
TEST(Jpeg, OfInvertedCmykBecomesLight) {
  for (const bool is_progressive : {false, true}) {
    const File file = make_jpeg(filled(16, 16, {240, 100, 50, 200}), {TJSAMP_444, 100, is_progressive});
    EXPECT_LE(distance(decoded(file), filled(16, 16, {188, 78, 39})), 3);  // value · 200 ÷ 255
    const Image gray = decoded(file, {.channels = 1});
    EXPECT_LE(distance(gray, filled(16, 16, {106})), 3);
  }
}

/// Without the marker, the components are what libjpeg-turbo stored for YCCK: brightness, twice 128, and black.
TEST(Jpeg, OfCmykWithoutAdobesMarkerIsInk) {
  const File adobe = make_jpeg(filled(16, 16, {155, 155, 155, 51}));
  const File file = without_segments(adobe, adobe_marker);
  ASSERT_LT(file.size(), adobe.size());
  const int paper = 255 - 51;
  const auto light = [&](int ink) { return static_cast<std::uint8_t>(paper - ink * paper / 255); };
  EXPECT_LE(distance(decoded(file), filled(16, 16, {light(100), light(128), light(128)})), 3);
}

TEST(Jpeg, IsTurnedUprightInEachOrientation) {
  const Image stored = blocks();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    // Where in the stored picture, of 3×2 blocks, the block at x, y of the upright one lies (EXIF 2.3, tag 0x0112).
    const auto block = [&](int x, int y) {
      const std::pair<int, int> places[] = {{x, y}, {2 - x, y}, {2 - x, 1 - y}, {x, 1 - y},
                                            {y, x}, {y, 1 - x}, {2 - y, 1 - x}, {2 - y, x}};
      return places[orientation - 1];
    };
    const int width = orientation >= 5 ? 2 : 3;
    for (const bool is_little : {false, true}) {
      const File file = with_segment(make_jpeg(stored), 0xE1, exif_segment(orientation, is_little));
      const PictureInfo info = inspect(file);
      EXPECT_EQ(info.orientation, orientation);
      EXPECT_EQ(info.width, 8 * width);
      EXPECT_EQ(info.height, 8 * (5 - width));
      for (const int channels : {1, 3}) {
        const Image picture = decoded(file, {.channels = channels});
        ASSERT_EQ(picture.width, info.width);
        ASSERT_EQ(picture.height, info.height);
        for (int y = 0; y < picture.height; ++y) {
          for (int x = 0; x < picture.width; ++x) {
            const auto [sx, sy] = block(x / 8, y / 8);
            ASSERT_NEAR(picture.row(y)[x * channels], 50 * (sx + 3 * sy), 1) << orientation << " at " << x << "," << y;
          }
        }
      }
    }
  }
}

TEST(Jpeg, WithDamagedExifDataIsTakenAsItIsStored) {
  const File good = exif_segment(6, true);
  for (std::size_t size = 0; size < good.size() - 6; ++size) {
    const File file =
        with_segment(make_jpeg(blocks()), 0xE1, File(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_EQ(inspect(file).orientation, size < 38 ? 1 : 6) << size;
  }
  EXPECT_EQ(inspect(with_segment(make_jpeg(blocks()), 0xE1, exif_segment(9, true))).orientation, 1);
  EXPECT_EQ(inspect(with_segment(make_jpeg(blocks()), 0xE1, exif_segment(0, true))).orientation, 1);
}

TEST(Jpeg, ThatIsCutOffAnywhereIsCorrupt) {
  const File files[] = {make_jpeg(patterned(33, 17, 3), {TJSAMP_420, 80, false}),
                        make_jpeg(patterned(33, 17, 3), {TJSAMP_420, 80, true}), make_jpeg(patterned(17, 9, 1)),
                        make_jpeg(patterned(17, 9, 4))};
  for (const File& file : files) {
    EXPECT_NO_THROW((void)decoded(file));
    for (std::size_t size = 0; size < file.size(); ++size) {
      const File part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(code_of([&] { (void)decoded(part); }), ErrorCode::corrupt) << size << " of " << file.size();
    }
  }
}

/// Puts bytes in front of the first place where the others stand.
File with_bytes_before(File file, std::initializer_list<int> place, std::size_t count) {
  File bytes;
  for (const int byte : place) bytes.push_back(static_cast<std::byte>(byte));
  const auto at = std::search(file.begin(), file.end(), bytes.begin(), bytes.end());
  EXPECT_NE(at, file.end());
  file.insert(at, count, std::byte{0x55});
  return file;
}

TEST(Jpeg, WithBytesBetweenItsPartsHasThePixelsThatItHasWithoutThem) {
  const Image picture = patterned(33, 17, 3);
  for (const bool is_progressive : {false, true}) {
    const File whole = make_jpeg(picture, {TJSAMP_420, 80, is_progressive});
    const Image expected = decoded(whole);
    for (const int marker : {0xD9, 0xDA, 0xDB, 0xC4}) {
      const File file = with_bytes_before(whole, {0xFF, marker}, 100);
      EXPECT_EQ(decoded(file).pixels, expected.pixels) << marker;
      EXPECT_EQ(inspect(file).width, 33);
      for (std::size_t size = 0; size < file.size(); ++size) {
        const File part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_EQ(code_of([&] { (void)decoded(part); }), ErrorCode::corrupt) << size << " of " << file.size();
      }
    }
  }
}

TEST(Jpeg, OfAnotherRevisionOfJfifIsDecoded) {
  const File file = make_jpeg(patterned(33, 17, 3));
  File other = file;
  const std::array name{std::byte{'J'}, std::byte{'F'}, std::byte{'I'}, std::byte{'F'}, std::byte{0}};
  const auto at = std::search(other.begin(), other.end(), name.begin(), name.end());
  ASSERT_NE(at, other.end());
  *(at + name.size()) = std::byte{2};
  EXPECT_EQ(decoded(other).pixels, decoded(file).pixels);
}

TEST(Jpeg, WhoseScanEndsTooEarlyIsCorruptThoughItHasAnEndMarker) {
  File file = make_jpeg(patterned(33, 17, 3), {TJSAMP_420, 80, false});
  file.erase(file.end() - 60, file.end() - 2);
  expect_error([&] { (void)decoded(file); }, ErrorCode::corrupt, {"damaged", "premature end of data segment"});
}

TEST(Jpeg, WithChangedBytesIsDecodedOrRefused) {
  const File file = make_jpeg(patterned(33, 17, 3), {TJSAMP_420, 80, true});
  std::mt19937 generator(1);
  int refused = 0;
  for (int change = 0; change < 2000; ++change) {
    File changed = file;
    changed[generator() % file.size()] = static_cast<std::byte>(generator());
    // Limits, because a changed extent is a large picture.
    const auto code = code_of([&] { (void)decoded(changed, {.limits = {.pixels = 1 << 20}}); });
    ASSERT_TRUE(!code || code == ErrorCode::corrupt || code == ErrorCode::unsupported);
    refused += code.has_value();
  }
  EXPECT_GT(refused, 200);
}

TEST(Jpeg, IsScaledToThePowerOfTwoThatKeepsTheShorterSide) {
  const File file = make_jpeg(patterned(161, 97, 3), {TJSAMP_420, 90, false});
  const auto width_at = [&](int side) { return decoded(file, {.least_side = side}).width; };
  EXPECT_EQ(width_at(0), 161);
  EXPECT_EQ(width_at(98), 161);
  EXPECT_EQ(width_at(50), 161);
  EXPECT_EQ(width_at(49), 81);  // 97 ÷ 2, rounded up
  EXPECT_EQ(width_at(25), 41);
  EXPECT_EQ(width_at(24), 41);
  EXPECT_EQ(width_at(13), 21);
  EXPECT_EQ(width_at(1), 21);
  const Image turned = decoded(with_segment(file, 0xE1, exif_segment(6, false)), {.least_side = 49});
  EXPECT_EQ(turned.width, 49);
  EXPECT_EQ(turned.height, 81);
}

TEST(Jpeg, OfKindsThatTheLibraryLacksIsUnsupported) {
  File file = make_jpeg(blocks());
  for (std::size_t at = 2; at + 9 < file.size(); ++at) {
    if (file[at] != std::byte{0xFF} || file[at + 1] != std::byte{0xC0}) continue;
    File lossless = file;
    lossless[at + 1] = std::byte{0xC3};
    expect_error([&] { (void)inspect(lossless); }, ErrorCode::unsupported, {"lossless"});
    File deep = file;
    deep[at + 4] = std::byte{12};
    expect_error([&] { (void)decoded(deep); }, ErrorCode::unsupported, {"12-bit"});
    return;
  }
  FAIL() << "there is no frame";
}

}  // namespace
}  // namespace lockstep::vision
