// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "support/errors.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/pictures.hpp"
#include "vision/source/file_source.hpp"
#include "vision/transforms/pipeline.hpp"

namespace lockstep::vision {
namespace {

bool is_in(const Box& box, int x, int y) {
  const auto column = static_cast<float>(x);
  const auto row = static_cast<float>(y);
  return column >= box.left && column < box.right && row >= box.top && row < box.bottom;
}

/// Counts how often it decodes, and remembers the size of the last picture.
class OneJpeg final : public Source {
 public:
  OneJpeg(int width, int height, const Box& box) {
    Image picture;
    picture.resize(width, height, 3);
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (int channel = 0; channel < 3; ++channel)
          picture.row(y)[static_cast<std::size_t>(3 * x + channel)] = is_in(box, x, y) ? 250 : 10;
    jpeg_ = make_jpeg(picture);
    annotation_ = {.label = 0, .boxes = {box}};
  }
  [[nodiscard]] std::string format() const override { return "jpeg"; }
  [[nodiscard]] std::int64_t size() const override { return 1; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t /*sample*/) const override { return annotation_; }
  [[nodiscard]] std::string place(std::int64_t /*sample*/) const override { return "one.jpg"; }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t /*sample*/) const override {
    return static_cast<std::int64_t>(jpeg_.size());
  }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& bytes) const override { bytes = jpeg_; }
  void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
              Image& picture) const override {
    Source::decode(sample, bytes, options, picture);
    ++decodes;
    decoded_width = picture.width;
  }

  /// Sets the size that the annotation says.
  void say_size(int width, int height) {
    annotation_.width = width;
    annotation_.height = height;
  }

  mutable int decodes = 0;
  mutable int decoded_width = 0;

 private:
  File jpeg_;
  Annotation annotation_;
  std::vector<std::string> names_ = {"bright"};
};

/// The mean of the pixels in a box, less than one pixel from its edges left out.
double mean_in(const Image& picture, const Box& box) {
  double sum = 0;
  int count = 0;
  for (int y = static_cast<int>(box.top) + 1; y < static_cast<int>(box.bottom) - 1; ++y)
    for (int x = static_cast<int>(box.left) + 1; x < static_cast<int>(box.right) - 1; ++x, ++count)
      sum += picture.row(y)[static_cast<std::size_t>(3 * x)];
  return sum / count;
}

/// Boxes are in pixels of the original, and the transforms see a picture of half its size.
TEST(DecodedSize, BoxesFollowPicturesThatAreDecodedAtASmallerScale) {
  const Box box{.left = 160, .top = 80, .right = 400, .bottom = 320};
  const auto source = std::make_shared<OneJpeg>(640, 480, box);
  const Size input{.width = 160, .height = 160};
  std::string why_not;
  const auto cache =
      std::make_shared<PictureCache>(make_memory_file(PictureCache::file_bytes(1, {1 << 20}), {}, why_not), 1);
  for (const auto& kept_in : {std::shared_ptr<PictureCache>(), cache, cache}) {
    const PictureDataset dataset(source, {.name = "one",
                                          .input = input,
                                          .transforms = parse_transforms("letterbox", input),
                                          .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}},
                                          .cache = kept_in});
    Image picture;
    Annotation annotation;
    EXPECT_TRUE(dataset.view({}, picture, annotation));
    EXPECT_EQ(source->decoded_width, 320);
    ASSERT_EQ(annotation.boxes.size(), 1U);
    const Box& found = annotation.boxes[0];
    EXPECT_FLOAT_EQ(found.left, 40);
    EXPECT_FLOAT_EQ(found.top, 20 + 20);  // below 20 rows of gray
    EXPECT_FLOAT_EQ(found.right, 100);
    EXPECT_FLOAT_EQ(found.bottom, 80 + 20);
    EXPECT_GT(mean_in(picture, found), 240);
  }
  EXPECT_EQ(source->decodes, 2) << "the last data set finds it in the cache";
}

TEST(DecodedSize, BoxesOfAPictureOfAnotherSizeAreRefused) {
  const auto source = std::make_shared<OneJpeg>(640, 480, Box{.left = 160, .top = 80, .right = 400, .bottom = 320});
  const Size input{.width = 160, .height = 160};
  const PictureDataset dataset(source, {.name = "one",
                                        .input = input,
                                        .transforms = parse_transforms("letterbox", input),
                                        .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}}});
  Image picture;
  Annotation annotation;
  source->say_size(640, 480);
  EXPECT_TRUE(dataset.view({}, picture, annotation)) << "the picture is decoded at half of its size";
  source->say_size(1280, 960);
  expect_error([&] { (void)dataset.view({}, picture, annotation); }, ErrorCode::corrupt,
               {"one.jpg has 640×480 pixels, but its boxes belong to a picture of 1280×960", "--on-bad-sample skip"});
}

}  // namespace
}  // namespace lockstep::vision
