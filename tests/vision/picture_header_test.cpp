// SPDX-License-Identifier: Apache-2.0
#include "vision/source/picture_header.hpp"

#include "support/errors.hpp"
#include "vision/pictures.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

std::string text_of_file(const File& file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

/// "width×height" by the header of a file with these bytes.
std::string header_text(const UserFiles& user, const File& file) {
  user.put("a.jpg", text_of_file(file));
  const auto header = header_of(user.path("a.jpg"));
  return header ? std::to_string(header->width) + "×" + std::to_string(header->height) : "none";
}

/// The chunk eXIf of a PNG; libspng does not look at its checksum before it is asked for the chunk.
File exif_chunk(int orientation) {
  const File exif = exif_data(orientation, true);
  File chunk(4);
  chunk[3] = static_cast<std::byte>(exif.size());
  for (const char c : {'e', 'X', 'I', 'f'}) chunk.push_back(static_cast<std::byte>(c));
  chunk.insert(chunk.end(), exif.begin(), exif.end());
  chunk.resize(chunk.size() + 4);
  return chunk;
}

TEST(PictureHeader, IsThatOfTheUprightPicture) {
  const UserFiles user;
  const File jpeg = make_jpeg(patterned(30, 20, 3));
  EXPECT_EQ(header_text(user, jpeg), "30×20");
  EXPECT_EQ(header_text(user, with_segment(jpeg, 0xE1, exif_segment(6, true))), "20×30");
  EXPECT_EQ(header_text(user, encode_png(patterned(30, 20, 1))), "30×20");
}

TEST(PictureHeader, MayLieFarBehind) {
  const UserFiles user;
  File jpeg = make_jpeg(patterned(30, 20, 3));
  for (int i = 0; i < 3; ++i) jpeg = with_segment(jpeg, 0xE2, File(60'000));
  EXPECT_EQ(header_text(user, jpeg), "30×20");
  File png = encode_png(patterned(300, 200, 3));
  ASSERT_GT(png.size(), 80'000U) << "or there is nothing behind the first block";
  const File chunk = exif_chunk(6);
  png.insert(png.end() - 12, chunk.begin(), chunk.end());  // in front of IEND
  EXPECT_EQ(header_text(user, png), "200×300");
}

TEST(PictureHeader, OfADamagedFileIsNone) {
  const UserFiles user;
  const File jpeg = make_jpeg(patterned(30, 20, 3));
  EXPECT_EQ(header_text(user, File(jpeg.begin(), jpeg.begin() + 100)), "none");
  EXPECT_EQ(header_text(user, {}), "none");
  EXPECT_EQ(header_text(user, File(100'000)), "none");
  user.put("b.jpg", std::string("RIFF\x10\0\0\0WEBPVP8 ", 16));
  EXPECT_FALSE(header_of(user.path("b.jpg")));
  expect_error([&] { (void)header_of(user.path("ghost.jpg")); }, ErrorCode::io,
               {user.path("ghost.jpg").string() + " does not exist"});
  expect_error([&] { (void)header_of(user.path()); }, ErrorCode::io, {"is a folder"});
}

}  // namespace
}  // namespace lockstep::vision
