// SPDX-License-Identifier: Apache-2.0
#include "vision/codec/codec.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/errors.hpp"
#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

using namespace std::string_literals;

File bytes_of(const std::string& text) {
  File file;
  for (const char byte : text) file.push_back(static_cast<std::byte>(byte));
  return file;
}

/// A PNG's signature and header, whose checksum is right for none of these extents: it is never looked at.
File png_header_of(const std::string& extents) {
  return bytes_of("\x89PNG\r\n\x1A\n"s + "\0\0\0\x0DIHDR"s + extents + "\x08\x02\0\0\0"s + "abcd");
}

TEST(PictureFormats, AreToldApartByContents) {
  EXPECT_EQ(format_of(make_jpeg(patterned(8, 8, 3))), PictureFormat::jpeg);
  EXPECT_EQ(format_of(encode_png(patterned(8, 8, 3))), PictureFormat::png);
  EXPECT_EQ(format_of(bytes_of("RIFF\x24\0\0\0WEBPVP8 "s)), PictureFormat::webp);
  EXPECT_EQ(format_of(bytes_of("BM\x36\0\0\0"s)), PictureFormat::bmp);
  EXPECT_EQ(format_of(bytes_of("II*\0\x08\0\0\0"s)), PictureFormat::tiff);
  EXPECT_EQ(format_of(bytes_of("MM\0*\0\0\0\x08"s)), PictureFormat::tiff);
  EXPECT_EQ(format_of(bytes_of("GIF89a")), PictureFormat::gif);
  EXPECT_EQ(format_of(bytes_of("\0\0\0\x18"s + "ftypheic")), PictureFormat::heic);
  EXPECT_EQ(format_of(bytes_of("\0\0\0\x18"s + "ftypmp42")), PictureFormat::unknown);
  EXPECT_EQ(format_of({}), PictureFormat::unknown);
}

TEST(PictureFormats, ThatCannotBeDecodedAreRefusedByName) {
  const std::pair<std::string, std::string> files[] = {{"RIFF\x24\0\0\0WEBPVP8 "s, "WebP"},
                                                       {"BM\x36\0\0\0"s, "BMP"},
                                                       {"II*\0\x08\0\0\0"s, "TIFF"},
                                                       {"GIF89a", "GIF"},
                                                       {"\0\0\0\x18"s + "ftypheic", "HEIC"}};
  for (const auto& [file, name] : files) {
    const auto bytes = bytes_of(file);
    expect_error([&] { (void)decoded(bytes); }, ErrorCode::unsupported, {name, "convert the picture"});
    expect_error([&] { (void)inspect(bytes); }, ErrorCode::unsupported, {name});
  }
}

TEST(PictureFormats, OfOtherFilesAreCorrupt) {
  expect_error([] { (void)decoded({}); }, ErrorCode::corrupt, {"the file is empty"});
  expect_error([] { (void)decoded(bytes_of("<html>not found</html>")); }, ErrorCode::corrupt, {"this is no picture"});
}

TEST(DecodeLimits, RefuseWhatAHeaderClaims) {
  const File png = png_header_of("\0\0\xFD\xE8\0\0\xFD\xE8"s);  // 65,000 × 65,000
  File jpeg = make_jpeg(patterned(16, 8, 1));
  for (std::size_t at = 2; at + 9 < jpeg.size(); ++at) {
    if (jpeg[at] != std::byte{0xFF} || jpeg[at + 1] != std::byte{0xC0}) continue;
    for (const std::size_t side : {at + 5, at + 7}) jpeg[side] = std::byte{0xFD}, jpeg[side + 1] = std::byte{0xE8};
    break;
  }
  expect_error([&] { (void)inspect(jpeg); }, ErrorCode::corrupt, {"the JPEG claims 65000×65000 pixels", "100000000"});
  expect_error([&] { (void)decoded(jpeg); }, ErrorCode::corrupt, {"the JPEG claims 65000×65000 pixels"});
  EXPECT_EQ(code_of([&] { (void)inspect(png); }), ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { (void)decoded(png); }), ErrorCode::corrupt);
}

TEST(DecodeLimits, HoldForSidesAndPixels) {
  const Image picture = patterned(40, 30, 3);
  for (const File& file : {make_jpeg(picture), encode_png(picture)}) {
    EXPECT_NO_THROW((void)inspect(file, {.pixels = 1200, .side = 40}));
    expect_error([&] { (void)inspect(file, {.pixels = 1199, .side = 40}); }, ErrorCode::corrupt, {"40×30", "1199"});
    expect_error([&] { (void)decoded(file, {.limits = {.pixels = 1200, .side = 39}}); }, ErrorCode::corrupt,
                 {"40×30", "39 on a side"});
  }
}

TEST(Decode, RefusesAnyOtherNumberOfChannels) {
  const File file = encode_png(patterned(4, 4, 1));
  expect_error([&] { (void)decoded(file, {.channels = 2}); }, ErrorCode::invalid_argument, {"not 2"});
}

TEST(Decode, UsesThePicturesMemoryAgain) {
  const File large = make_jpeg(patterned(64, 64, 3));
  const File small = encode_png(patterned(32, 16, 3));
  Image picture;
  decode(large, {}, picture);
  const std::uint8_t* memory = picture.pixels.data();
  decode(small, {}, picture);
  EXPECT_EQ(picture.pixels.data(), memory);
  EXPECT_EQ(picture.pixels, patterned(32, 16, 3).pixels);
}

}  // namespace
}  // namespace lockstep::vision
