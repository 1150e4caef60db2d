// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>

#include "support/errors.hpp"
#include "vision/image/color.hpp"
#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

enum ColorType { gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgb_alpha = 6 };

TEST(Png, IsReadAsItWasWritten) {
  for (const int channels : {1, 3}) {
    const Image picture = patterned(37, 11, channels);
    const Image again = decoded(encode_png(picture), {.channels = 0});
    EXPECT_EQ(again.width, 37);
    EXPECT_EQ(again.height, 11);
    EXPECT_EQ(again.channels, channels);
    EXPECT_EQ(again.pixels, picture.pixels);
  }
}

TEST(Png, OfGrayHasOneChannelOrThree) {
  const File file = encode_png(patterned(5, 3, 1));
  EXPECT_EQ(decoded(file, {.channels = 1}).pixels, patterned(5, 3, 1).pixels);
  const Image color = decoded(file);
  ASSERT_EQ(color.channels, 3);
  for (std::size_t i = 0; i < 15; ++i)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(color.pixels[3 * i + c], patterned(5, 3, 1).pixels[i]);
}

TEST(Png, OfColorsBecomesGrayOnDemand) {
  const Image picture = patterned(7, 5, 3);
  Image expected = picture;
  to_gray(expected);
  EXPECT_EQ(decoded(encode_png(picture), {.channels = 1}).pixels, expected.pixels);
}

TEST(Png, OfFewBitsIsSpreadOverTheWholeRange) {
  EXPECT_EQ(decoded(make_png(3, 1, {.bit_depth = 1}, Bytes8{0b10100000}), {.channels = 1}).pixels,
            (Bytes8{255, 0, 255}));
  EXPECT_EQ(decoded(make_png(4, 1, {.bit_depth = 2}, Bytes8{0b00011011}), {.channels = 1}).pixels,
            (Bytes8{0, 85, 170, 255}));
  EXPECT_EQ(decoded(make_png(3, 1, {.bit_depth = 4}, Bytes8{0x0F, 0x80}), {.channels = 1}).pixels,
            (Bytes8{0, 255, 136}));
}

TEST(Png, Of16BitsKeepsTheUpperHalf) {
  const File grays = make_png(2, 1, {.bit_depth = 16, .color_type = gray}, Bytes8{0x12, 0xFF, 0xFE, 0x01});
  EXPECT_EQ(decoded(grays, {.channels = 1}).pixels, (Bytes8{0x12, 0xFE}));
  EXPECT_EQ(decoded(grays).pixels, (Bytes8{0x12, 0x12, 0x12, 0xFE, 0xFE, 0xFE}));
  const File colors = make_png(1, 1, {.bit_depth = 16, .color_type = rgb}, Bytes8{1, 200, 2, 201, 3, 202});
  EXPECT_EQ(decoded(colors).pixels, (Bytes8{1, 2, 3}));
}

TEST(Png, WithAPaletteBecomesColorsOrIndices) {
  const PngForm form{.bit_depth = 2, .color_type = palette, .palette = {{{9, 8, 7}}, {{0, 0, 255}}, {{10, 20, 30}}}};
  const File file = make_png(5, 2, form, Bytes8{0b00011000, 0b01000000, 0b10101010, 0b00000000});
  EXPECT_EQ(decoded(file, {.channels = 0}).channels, 3);
  const Bytes8 first{9, 8, 7, 0, 0, 255, 10, 20, 30, 9, 8, 7, 0, 0, 255};
  const Image colors = decoded(file);
  EXPECT_EQ(Bytes8(colors.row(0).begin(), colors.row(0).end()), first);
  const Image indices = decoded(file, {.palette_indices = true});
  EXPECT_EQ(indices.channels, 1);
  EXPECT_EQ(indices.pixels, (Bytes8{0, 1, 2, 0, 1, 2, 2, 2, 2, 0}));
  const Image picture = decoded(encode_png(patterned(4, 4, 3)), {.palette_indices = true});
  EXPECT_EQ(picture.pixels, patterned(4, 4, 3).pixels) << "a picture without a palette has no indices";
}

TEST(Png, WithTransparencyLiesOnWhite) {
  const File alpha = make_png(3, 1, {.color_type = rgb_alpha}, Bytes8{10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 51});
  EXPECT_EQ(decoded(alpha).pixels, (Bytes8{10, 20, 30, 255, 255, 255, 204, 224, 244}));
  const File gray_with_alpha = make_png(2, 1, {.color_type = gray_alpha}, Bytes8{0, 255, 0, 102});
  EXPECT_EQ(decoded(gray_with_alpha, {.channels = 0}).pixels, (Bytes8{0, 153}));
  const File one_color = make_png(2, 1, {.color_type = rgb, .transparent = {{1, 2, 3}}}, Bytes8{1, 2, 3, 1, 2, 4});
  EXPECT_EQ(decoded(one_color).pixels, (Bytes8{255, 255, 255, 1, 2, 4}));
  const File one_gray = make_png(2, 1, {.color_type = gray, .transparent = {{7, 0, 0}}}, Bytes8{7, 8});
  EXPECT_EQ(decoded(one_gray, {.channels = 1}).pixels, (Bytes8{255, 8}));
  const PngForm form{.color_type = palette, .palette = {{{0, 0, 0}}, {{50, 60, 70}}}, .palette_alpha = {0}};
  EXPECT_EQ(decoded(make_png(2, 1, form, Bytes8{0, 1})).pixels, (Bytes8{255, 255, 255, 50, 60, 70}));
}

TEST(Png, ThatIsInterlacedHasTheSamePixels) {
  const Image picture = patterned(19, 13, 3);
  const File file = make_png(19, 13, {.color_type = rgb, .is_interlaced = true}, picture.pixels);
  EXPECT_EQ(decoded(file).pixels, picture.pixels);
}

TEST(Png, IsTurnedUprightByItsExifChunk) {
  const Image picture = patterned(3, 2, 1);
  for (const bool is_little : {false, true}) {
    const File file = make_png(3, 2, {.exif = exif_data(6, is_little)}, picture.pixels);
    EXPECT_EQ(inspect(file).orientation, 6);
    EXPECT_EQ(inspect(file).width, 2);
    const Image turned = decoded(file, {.channels = 1});
    EXPECT_EQ(turned.width, 2);
    EXPECT_EQ(turned.height, 3);
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 2; ++x) EXPECT_EQ(turned.row(y)[x], picture.row(1 - x)[y]);
  }
}

TEST(Png, ThatIsCutOffAnywhereIsCorrupt) {
  const Image picture = patterned(23, 9, 3);
  const PngForm form{.color_type = palette, .palette = {{{1, 2, 3}}, {{4, 5, 6}}}, .palette_alpha = {9}};
  const File files[] = {encode_png(picture),
                        make_png(23, 9, {.color_type = rgb, .is_interlaced = true}, picture.pixels),
                        make_png(4, 1, form, Bytes8{0, 1, 1, 0})};
  for (const File& file : files) {
    for (const bool indices : {false, true}) {
      EXPECT_NO_THROW((void)decoded(file, {.palette_indices = indices}));
      for (std::size_t size = 0; size < file.size(); ++size) {
        const File part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_EQ(code_of([&] { (void)decoded(part, {.palette_indices = indices}); }), ErrorCode::corrupt)
            << size << " of " << file.size();
      }
    }
  }
}

TEST(Png, WithChangedBytesIsDecodedOrRefused) {
  const File file = encode_png(patterned(23, 9, 3));
  std::mt19937 generator(1);
  int refused = 0;
  for (int change = 0; change < 2000; ++change) {
    File changed = file;
    changed[generator() % file.size()] ^= static_cast<std::byte>(1 + generator() % 255);
    const auto code = code_of([&] { (void)decoded(changed); });
    ASSERT_EQ(code.value_or(ErrorCode::corrupt), ErrorCode::corrupt);
    refused += code.has_value();
  }
  EXPECT_GT(refused, 1900) << "checksums notice nearly all changes";
}

/// Returns the PNG with another chunk behind its header.
File with_chunk(const File& png, const std::string& type_and_contents) {
  std::string chunk = std::string(4, '\0') + type_and_contents + std::string(4, '\0');
  const auto write = [&](std::size_t at, unsigned long number) {
    for (std::size_t i = 0; i < 4; ++i) chunk[at + i] = static_cast<char>(number >> 8 * (3 - i));
  };
  write(0, type_and_contents.size() - 4);
  write(chunk.size() - 4, crc32(0, reinterpret_cast<const Bytef*>(type_and_contents.data()),
                                static_cast<uInt>(type_and_contents.size())));
  File file = png;
  const auto* begin = reinterpret_cast<const std::byte*>(chunk.data());
  file.insert(file.begin() + 33, begin, begin + chunk.size());
  return file;
}

TEST(Png, WithTextThatUnpacksToMoreThanAPictureMayIsRefused) {
  const std::string text(100'000, 'a');
  std::string packed(1'000, '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                     text.size()),
            Z_OK);
  using namespace std::string_literals;
  const File file = with_chunk(encode_png(patterned(4, 4, 1)), "zTXtkey\0\0"s + packed.substr(0, size));
  EXPECT_EQ(decoded(file, {.channels = 1}).pixels, patterned(4, 4, 1).pixels);
  EXPECT_EQ(code_of([&] { (void)decoded(file, {.limits = {.pixels = 10'000}}); }), ErrorCode::corrupt);
}

}  // namespace
}  // namespace lockstep::vision
