// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_defaults.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/images.hpp"
#include "support/errors.hpp"
#include "vision/pattern_source.hpp"
#include "vision/planes.hpp"
#include "vision/source/file_source.hpp"

namespace lockstep::vision {
namespace {

/// A folder of PNG files.
class Pictures : public testing::Test {
 protected:
  Pictures() { std::filesystem::create_directory(folder_); }
  ~Pictures() override { std::filesystem::remove_all(folder_); }

  void add(int width, int height) {
    const std::vector<std::byte> png = encode_png(pattern(width, height));
    add_file(std::string(reinterpret_cast<const char*>(png.data()), png.size()));
  }
  void add_file(const std::string& bytes) {
    const std::string name = std::to_string(samples_.size()) + ".png";
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    samples_.push_back({.path = name, .bytes = static_cast<std::int64_t>(bytes.size())});
  }
  [[nodiscard]] FileSource source() const { return {"folder", folder_, {"a"}, samples_}; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-pictures-" + std::to_string(getpid()));
  std::vector<FileSample> samples_;
};

void expect_input(const InputSize& input, Size size, bool are_equal) {
  EXPECT_EQ(input.size, size);
  EXPECT_EQ(input.are_equal, are_equal);
}

std::string sizes_text(const Size& input, double least, double most) {
  std::string text;
  for (const auto& [width, height] : sizes_between(input, least, most))
    text += (text.empty() ? "" : " ") + std::to_string(height) + "x" + std::to_string(width);
  return text;
}

TEST(SizesOfSteps, AreMultiplesOf32OrOf8ForSmallInputs) {
  EXPECT_EQ(sizes_text({224, 224}, 0.5, 1.5), "128x128 160x160 192x192 224x224 256x256 288x288 320x320");
  EXPECT_EQ(sizes_text({64, 64}, 0.5, 1.5), "32x32 64x64 96x96");
  EXPECT_EQ(sizes_text({32, 32}, 0.5, 1.5), "16x16 24x24 32x32 40x40 48x48");
  EXPECT_EQ(sizes_text({.width = 320, .height = 240}, 0.8, 1.2), "192x256 224x288 256x320 256x352 288x384");
  EXPECT_EQ(sizes_text({.width = 64, .height = 128}, 0.5, 1), "64x32 96x64 128x64");
  expect_error(
      [] {
        (void)sizes_between({64, 64}, 0.9, 1.1);
      },
      ErrorCode::invalid_argument, {"between 57.6 and 70.4 there are fewer than two multiples of 32 pixels"});
}

TEST_F(Pictures, OfOneSmallSizeStayAsTheyAre) {
  add_file("");  // bad samples do not count
  for (int i = 0; i < 5; ++i) add(64, 48);
  add_file("RIFF0000WEBPVP8 ");
  expect_input(default_input(source()), {64, 48}, true);
  expect_input(given_input(source(), {64, 48}), {64, 48}, true);
  expect_input(given_input(source(), {48, 64}), {48, 64}, false);
  add(48, 64);
  expect_input(default_input(source()), {224, 224}, false);
}

TEST_F(Pictures, OfALargerSizeAreResized) {
  for (int i = 0; i < 3; ++i) add(65, 64);
  expect_input(default_input(source()), {224, 224}, false);
  expect_input(given_input(source(), {65, 64}), {65, 64}, true);
}

TEST_F(Pictures, ThatCannotBeReadAreAnError) {
  add(20, 20);
  add(20, 20);
  std::filesystem::remove(folder_ / "1.png");
  expect_error([&] { (void)default_input(source()); }, ErrorCode::io, {"1.png"});
}

TEST_F(Pictures, InFilesHaveTheNumbersOfImageNet) {
  add(20, 20);
  EXPECT_EQ(default_channels(source()), 3);
  EXPECT_EQ(default_normalization(source(), 3),
            (Normalization{.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}}));
  EXPECT_EQ(default_normalization(source(), 1).mean.size(), 1U);
}

/// Gray or colored pictures in memory.
class InMemory final : public Source {
 public:
  explicit InMemory(int channels) : channels_(channels) {}
  [[nodiscard]] std::string format() const override { return "memory"; }
  [[nodiscard]] std::int64_t size() const override { return 20; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t /*sample*/) const override { return annotation_; }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return std::to_string(sample); }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  void decode(std::int64_t sample, std::span<const std::byte> /*bytes*/, const DecodeOptions& /*options*/,
              Image& picture) const override {
    picture = pattern(28, 26, channels_, static_cast<int>(sample));
  }

 private:
  int channels_;
  std::vector<std::string> names_;
  Annotation annotation_;
};

TEST(PicturesInMemory, AreMeasuredAsTheDataSetsOfTheirNames) {
  for (const int channels : {1, 3}) {
    const InMemory source(channels);
    data::Images images{.name = "memory", .shape = {channels, 26, 28}, .classes = 1};
    for (int sample = 0; sample < 20; ++sample) {
      const Image picture = pattern(28, 26, channels, sample);
      std::vector<std::uint8_t> planes(picture.pixels.size());
      write_planes(picture, planes.data());
      images.images.insert(images.images.end(), planes.begin(), planes.end());
      images.labels.push_back(0);
    }
    EXPECT_EQ(default_normalization(source, channels), data::measure_normalization(images));
    EXPECT_EQ(default_channels(source), channels);
    expect_input(default_input(source), {28, 26}, true);
    EXPECT_TRUE(is_in_memory(source));
  }
}

}  // namespace
}  // namespace lockstep::vision
