// SPDX-License-Identifier: Apache-2.0
// Pictures with a mask each: their layouts, and that transforms and caches keep mask and picture together.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "vision/cache/make_picture_cache.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/draw.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/picture_tiles.hpp"
#include "vision/transforms/pipeline.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

constexpr int width = 40;
constexpr int height = 30;

/// The class of a pixel: blobs of 0 to 2.
std::uint8_t class_at(int x, int y, int sample) { return static_cast<std::uint8_t>((x / 7 + y / 5 + sample) % 3); }

Image mask_image(int sample, int columns = width, int rows = height) {
  Image mask;
  mask.resize(columns, rows, 1);
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x) mask.row(y)[static_cast<std::size_t>(x)] = class_at(x, y, sample);
  return mask;
}

/// A picture of which each pixel is 100 times its class.
Image picture_image(int sample) {
  Image picture;
  picture.resize(width, height, 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        picture.row(y)[3 * static_cast<std::size_t>(x) + c] = static_cast<std::uint8_t>(100 * class_at(x, y, sample));
  return picture;
}

void put_png(const UserFiles& files, const std::string& path, const Image& picture, const Palette* palette = nullptr) {
  const std::vector<std::byte> bytes = encode_png(picture, palette);
  files.put(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void put_pair(const UserFiles& files, const std::string& picture, const std::string& mask, int sample) {
  put_png(files, picture, picture_image(sample));
  put_png(files, mask, mask_image(sample));
}

/// The mask of a sample as the source reads it.
Image mask_of(const Source& source, std::int64_t sample) {
  Image mask;
  std::vector<std::byte> bytes;
  source.read_mask(sample, bytes, mask);
  return mask;
}

TEST(Masks, AreListedBesidePicturesAsPaddleSegHasThem) {
  const UserFiles files;
  for (int i = 0; i < 3; ++i)
    put_pair(files, "images/a " + std::to_string(i) + ".png", "labels of it/" + std::to_string(i) + ".png", i);
  files.put("data/train.txt",
            "\xef\xbb\xbf../images/a 0.png\t../labels of it/0.png\r\n../images/a 1.png ../missing.png\r\n\r\n");
  files.put("data/val.txt", "../images/a 2.png ../x.png");
  put_png(files, "x.png", mask_image(2));
  const Sources sources = open_sources({.data = files.path("data")});
  EXPECT_EQ(sources.train->format(), "masks");
  ASSERT_EQ(sources.train->size(), 1);
  ASSERT_EQ(sources.val->size(), 1);
  EXPECT_EQ(sources.survey.train->notes.without_annotation.count, 1);
  EXPECT_EQ(sources.train->class_names(), (Names{"0", "1", "2"})) << "the values of the masks";
  EXPECT_EQ(mask_of(*sources.train, 0).pixels, mask_image(0).pixels);
  EXPECT_EQ(mask_of(*sources.val, 0).pixels, mask_image(2).pixels);
  const std::string table = text_of(sources.survey);
  EXPECT_NE(table.find("classes of pixels: 0, 1, 2"), std::string::npos) << table;
}

TEST(Masks, LieInFoldersBesidePictures) {
  const UserFiles files;
  put_pair(files, "images/train/x/a.png", "masks/train/x/a.png", 0);
  put_png(files, "images/train/b.png", picture_image(1));
  put_pair(files, "images/val/c.png", "masks/val/c.png", 2);
  files.put("labels.txt", "sky\nsea\nland\nunused\n");
  const Sources sources = open_sources({.data = files.path()});
  ASSERT_EQ(sources.train->size(), 1);
  EXPECT_EQ(sources.train->relative_place(0), "images/train/x/a.png");
  EXPECT_EQ(sources.survey.train->notes.without_annotation.first, "images/train/b.png");
  EXPECT_EQ(sources.val->size(), 1);
  EXPECT_EQ(sources.train->class_names(), (Names{"sky", "sea", "land", "unused"}));
}

TEST(Masks, AreThoseOfPascalVocWithAPalette) {
  const UserFiles files;
  put_png(files, "JPEGImages/a.jpg", picture_image(0));  // the contents decide
  const Palette palette = class_palette();
  Image mask = mask_image(0);
  mask.pixels[5] = left_out_pixel;
  put_png(files, "SegmentationClass/a.png", mask, &palette);
  files.put("ImageSets/Segmentation/train.txt", "a\n");
  files.put("labels.txt", "background\none\ntwo\n");
  const Sources sources = open_sources({.data = files.path()});
  ASSERT_EQ(sources.train->size(), 1);
  EXPECT_EQ(sources.val, nullptr);
  EXPECT_EQ(mask_of(*sources.train, 0).pixels, mask.pixels) << "indices, not colors";
}

TEST(Masks, OfCityscapesHaveItsNineteenClasses) {
  const UserFiles files;
  put_png(files, "leftImg8bit/train/aachen/a_leftImg8bit.png", picture_image(0));
  put_png(files, "leftImg8bit/val/ulm/b_leftImg8bit.png", picture_image(0));
  Image ids;
  ids.resize(width, height, 1);
  const std::vector<std::uint8_t> some = {7, 8, 11, 26, 33, 0, 6, 29, 255};
  for (std::size_t i = 0; i < ids.pixels.size(); ++i) ids.pixels[i] = some[i % some.size()];
  put_png(files, "gtFine/train/aachen/a_gtFine_labelIds.png", ids);
  put_png(files, "gtFine/val/ulm/b_gtFine_labelIds.png", ids);
  const Sources by_ids = open_sources({.data = files.path()});
  EXPECT_EQ(by_ids.train->class_names().size(), 19U);
  EXPECT_EQ(by_ids.train->class_names()[13], "car");
  const Image mask = mask_of(*by_ids.val, 0);
  const std::vector<std::uint8_t> expected = {0, 1, 2, 13, 18, 255, 255, 255, 255};
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) ASSERT_EQ(mask.pixels[i], expected[i % expected.size()]) << i;
  Image train_ids;
  train_ids.resize(width, height, 1);
  for (std::size_t i = 0; i < train_ids.pixels.size(); ++i)
    train_ids.pixels[i] = static_cast<std::uint8_t>(i % 20 == 19 ? 255 : i % 20);
  for (const char* file : {"train/aachen/a", "val/ulm/b"})
    put_png(files, "gtFine/" + std::string(file) + "_gtFine_labelTrainIds.png", train_ids);
  EXPECT_EQ(mask_of(*open_sources({.data = files.path()}).train, 0).pixels, train_ids.pixels);
}

/// A source of one picture with this mask.
std::shared_ptr<const Source> source_of(const UserFiles& files, const Image& mask) {
  put_png(files, "images/a.png", picture_image(0));
  put_png(files, "masks/a.png", mask);
  files.put("labels.txt", "one\ntwo\nthree\n");
  return open_sources({.data = files.path()}).train;
}

PictureOptions options(std::string_view transforms, const Size& size) {
  return {.name = "masks",
          .input = size,
          .transforms = parse_transforms(transforms, size),
          .normalization = {.mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}}};
}

/// Tiles of a picture have its pixels, and each pixel of the mask counts in one of them.
TEST(Masks, AreDividedIntoTilesInWhichEachPixelCountsOnce) {
  const UserFiles files;
  put_pair(files, "images/train/a.png", "masks/train/a.png", 0);
  put_pair(files, "images/train/b.png", "masks/train/b.png", 1);
  const Sources sources = open_sources({.data = files.path()});
  const std::vector<Size> sizes = {{.width = width, .height = height}, {}};  // the second one is not known
  const Tiles tiles = tiles_of(sources.train, sizes, 16);
  ASSERT_EQ(tiles.source->size(), 3 * 3 + 1) << "at 0, 12 and 24 of 40 columns, and at 0, 7 and 14 of 30 rows";
  EXPECT_EQ(tiles.source->relative_place(1), "images/train/a.png (tile 2)");
  std::vector<int> counted(static_cast<std::size_t>(width) * height);
  for (std::int64_t tile = 0; tile < 9; ++tile) {
    const auto left = static_cast<int>(tile % 3 * 12);
    const auto top = static_cast<int>(tile / 3 * 7);
    std::vector<std::byte> bytes;
    Image picture;
    tiles.source->read(tile, bytes);
    tiles.source->decode(tile, bytes, {}, picture);
    const Image mask = mask_of(*tiles.source, tile);
    for (const Image& image : std::vector<Image>{picture, mask}) {
      ASSERT_EQ(image.width, 16);
      ASSERT_EQ(image.height, 16);
    }
    EXPECT_EQ(tiles.sizes[static_cast<std::size_t>(tile)], (Size{.width = 16, .height = 16}));
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 16; ++x) {
        const std::uint8_t expected = class_at(left + x, top + y, 0);
        EXPECT_EQ(picture.row(y)[3 * static_cast<std::size_t>(x)], 100 * expected);
        const std::uint8_t found = mask.row(y)[static_cast<std::size_t>(x)];
        if (found == left_out_pixel) continue;
        EXPECT_EQ(found, expected);
        ++counted[static_cast<std::size_t>((top + y) * width + left + x)];
        const auto is_far = [](int at, int first, int length) {
          return (at >= 2 || first == 0) && (at < 14 || first + 16 == length);
        };
        EXPECT_TRUE(is_far(x, left, width) && is_far(y, top, height)) << "half of the overlap is context";
      }
  }
  EXPECT_EQ(counted, std::vector<int>(counted.size(), 1));
  EXPECT_EQ(mask_of(*tiles.source, 9).pixels, mask_image(1).pixels) << "a whole picture";
  EXPECT_EQ(tiles_of(sources.train, sizes, 64).source->size(), 2);
}

TEST(Masks, ThatDoNotFitAreErrorsOfTheirFiles) {
  const UserFiles files;
  const auto view = [&](const Image& mask) {
    const PictureDataset dataset(source_of(files, mask), options("none", {width, height}));
    Image picture;
    Annotation annotation;
    (void)dataset.view({}, picture, annotation);
  };
  EXPECT_NO_THROW(view(mask_image(0)));
  Image wrong = mask_image(0);
  wrong.pixels[7] = 3;
  expect_error([&] { view(wrong); }, ErrorCode::corrupt,
               {"masks/a.png", "the value 3", "none of the 3 classes", "255"});
  expect_error([&] { view(mask_image(0, width, height - 1)); }, ErrorCode::corrupt,
               {"images/a.png has 40×30 pixels", "its mask has 40×29"});
  expect_error([&] { view(picture_image(0)); }, ErrorCode::corrupt, {"masks/a.png", "one channel or a palette"});
}

/// Checks that each pixel of a picture is 100 times its class, but for those that interpolation mixes of several.
void expect_together(const Image& picture, const Image& mask, double least_share) {
  ASSERT_EQ(mask.width, picture.width);
  ASSERT_EQ(mask.height, picture.height);
  int equal = 0;
  int counted = 0;
  for (std::size_t i = 0; i < mask.pixels.size(); ++i) {
    if (mask.pixels[i] == left_out_pixel) continue;
    ++counted;
    equal += std::abs(picture.pixels[3 * i] - 100 * mask.pixels[i]) <= 50 ? 1 : 0;
  }
  EXPECT_GE(equal, least_share * counted);
  EXPECT_GT(counted, 0);
}

TEST(Masks, MoveWithTheirPictures) {
  const UserFiles files;
  const auto source = source_of(files, mask_image(0));
  struct Case {
    const char* transforms;
    Size size;
    double least_share;
  };
  // The blobs are 7×5 pixels, so interpolation mixes many pixels with their neighbors, but rounds most to their own
  // class.
  for (const auto& [transforms, size, least_share] :
       {Case{"none", {width, height}, 1}, Case{"flip", {width, height}, 1}, Case{"crop,flip", {width, height}, 1},
        Case{"random-crop", {24, 24}, 1}, Case{"random-crop", {64, 48}, 1}, Case{"center-crop", {20, 20}, 1},
        Case{"resize:60x80", {80, 60}, 0.9}, Case{"scale:1.5,2,random-crop,flip", {32, 32}, 0.9},
        Case{"letterbox", {96, 96}, 0.9}, Case{"random-resized-crop", {48, 48}, 0.85},
        Case{"affine:0.3,0.1,20,5", {64, 64}, 0.85}}) {
    SCOPED_TRACE(transforms);
    const PictureDataset dataset(source, options(transforms, size));
    for (std::int64_t epoch = 1; epoch <= 8; ++epoch) {
      Image picture;
      Annotation annotation;
      ASSERT_TRUE(dataset.view({.seed = 3, .epoch = epoch}, picture, annotation));
      expect_together(picture, annotation.mask, least_share);
    }
  }
}

TEST(Masks, StayWhereColorsChange) {
  const UserFiles files;
  const auto source = source_of(files, mask_image(0));
  Image usual;
  Annotation expected;
  ASSERT_TRUE(PictureDataset(source, options("none", {width, height})).view({}, usual, expected));
  const PictureDataset dataset(source, options("color-jitter:0.5,0.5,0.5,0.1", {width, height}));
  for (std::int64_t epoch = 1; epoch <= 8; ++epoch) {
    Image picture;
    Annotation annotation;
    ASSERT_TRUE(dataset.view({.seed = 3, .epoch = epoch}, picture, annotation));
    EXPECT_EQ(annotation.mask.pixels, expected.mask.pixels);
    EXPECT_NE(picture.pixels, usual.pixels);
  }
}

TEST(Masks, BeyondThePictureAreLeftOut) {
  const UserFiles files;
  const PictureDataset dataset(source_of(files, mask_image(0)), options("random-crop", {64, 48}));
  Image picture;
  Annotation annotation;
  ASSERT_TRUE(dataset.view({}, picture, annotation));
  for (int y = 0; y < 48; ++y)
    for (int x = 0; x < 64; ++x) {
      const bool is_inside = x < width && y < height;
      ASSERT_EQ(annotation.mask.row(y)[static_cast<std::size_t>(x)], is_inside ? class_at(x, y, 0) : left_out_pixel);
      if (!is_inside) {
        ASSERT_EQ(picture.row(y)[3 * static_cast<std::size_t>(x)], 127);
      }
    }
}

TEST(Masks, AreCachedWithTheirPictures) {
  const UserFiles files;
  PictureOptions cached = options("scale:0.5,2,random-crop,flip", {32, 32});
  const auto source = source_of(files, mask_image(0));
  const PictureDataset plain(source, cached);
  std::string why_not;
  cached.cache =
      std::make_shared<PictureCache>(make_memory_file(PictureCache::file_bytes(1, {1 << 20}), {}, why_not), 1);
  const PictureDataset dataset(source, cached);
  for (std::int64_t epoch = 1; epoch <= 5; ++epoch) {
    Image expected;
    Image picture;
    Annotation with;
    Annotation without;
    ASSERT_TRUE(plain.view({.epoch = epoch}, expected, without));
    if (epoch == 2) files.put("masks/a.png", "no longer read");
    ASSERT_TRUE(dataset.view({.epoch = epoch}, picture, with));
    if (epoch == 2) put_png(files, "masks/a.png", mask_image(0));
    EXPECT_EQ(picture.pixels, expected.pixels);
    EXPECT_EQ(with.mask.pixels, without.mask.pixels);
  }
}

}  // namespace
}  // namespace lockstep::vision
