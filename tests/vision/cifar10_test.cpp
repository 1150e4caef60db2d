// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "data/read_samples.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/parts_in_memory.hpp"
#include "vision/whole_pictures.hpp"

namespace lockstep::vision {
namespace {

using data::read_all;
using data::TemporaryDirectory;
using data::write_plain;

constexpr std::size_t image_bytes = 3 * 32 * 32;

/// Every pixel of a color is ten times the label plus the color, except the first pixel, which is 255.
std::string cifar_record(int label) {
  std::string bytes(1, static_cast<char>(label));
  for (int color = 0; color < 3; ++color) bytes += std::string(image_bytes / 3, static_cast<char>(10 * label + color));
  bytes[1] = static_cast<char>(255);
  return bytes;
}

class Cifar10 : public testing::Test {
 protected:
  Cifar10() {
    for (int batch = 1; batch <= 5; ++batch)
      write_plain(file("data_batch_" + std::to_string(batch) + ".bin"), cifar_record(batch) + cifar_record(9 - batch));
    write_plain(file("test_batch.bin"), cifar_record(7));
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] static Parts open(const std::filesystem::path& folder) { return open_cifar10({.data = folder}); }
  void expect_refused(ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error([this] { (void)open(directory_.path()); }, code, parts);
  }

  TemporaryDirectory directory_;
};

TEST_F(Cifar10, HasTheImagesOfAllBatchesInOrder) {
  const Parts parts = open(directory_.path());
  EXPECT_EQ(labels_of(parts.train), (std::vector<std::int32_t>{1, 8, 2, 7, 3, 6, 4, 5, 5, 4}));
  EXPECT_EQ(labels_of(parts.val), (std::vector<std::int32_t>{7}));
  EXPECT_EQ(classes_of(parts.train), 10);
  EXPECT_EQ(parts.train.source->class_names()[1], "automobile");
  EXPECT_EQ(parts.train.source->place(7), file("data_batch_4.bin").string() + ", image 1");
  const Image picture = picture_of(parts.train, 1);
  EXPECT_EQ(picture.width, 32);
  EXPECT_EQ(picture.height, 32);
  EXPECT_EQ(picture.pixels.size(), image_bytes);
  EXPECT_EQ(picture.pixels[0], 255) << "red of the first pixel";
  EXPECT_EQ(picture.pixels[3], 80);
  EXPECT_EQ(picture.pixels[4], 81) << "green beside red";
  EXPECT_EQ(picture.pixels[image_bytes - 1], 82);
}

TEST_F(Cifar10, IsFoundInTheFolderOfTheArchive) {
  TemporaryDirectory above;
  std::filesystem::copy(directory_.path(), above.path() / "cifar-10-batches-bin");
  EXPECT_EQ(open(above.path()).train.source->size(), 10);
}

TEST_F(Cifar10, IsNormalizedByChannel) {
  const Parts parts = open(directory_.path());
  const data::DatasetPair pair = whole_pictures({parts.train.source, parts.val.source});
  std::vector<std::int64_t> indices(10);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<double> images(indices.size() * image_bytes);
  std::vector<std::int32_t> labels(indices.size());
  data::read_samples(*pair.train, indices, std::vector<Buffer>{std::span(images), std::span(labels)});
  for (std::size_t color = 0; color < 3; ++color) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (i % image_bytes / (image_bytes / 3) != color) continue;
      sum += images[i];
      squares += images[i] * images[i];
    }
    const auto count = static_cast<double>(images.size()) / 3;
    EXPECT_NEAR(sum / count, 0, 1e-9) << color;
    EXPECT_NEAR(squares / count, 1, 1e-9) << color;
  }
}

TEST_F(Cifar10, RefusesAFolderThatIsNone) {
  expect_error([] { (void)open(""); }, ErrorCode::invalid_argument, {"give the folder"});
  expect_error([this] { (void)open(file("none")); }, ErrorCode::io, {"none does not exist", "give the folder"});
  expect_error([this] { (void)open(file("test_batch.bin")); }, ErrorCode::io, {"test_batch.bin is not a folder"});
}

TEST_F(Cifar10, RefusesAFileThatCannotBeRead) {
  std::filesystem::remove(file("data_batch_3.bin"));
  expect_refused(ErrorCode::io, {file("data_batch_3.bin").string(), "No such file", "cifar10.py"});
  std::filesystem::create_directory(file("data_batch_3.bin"));
  expect_refused(ErrorCode::io, {file("data_batch_3.bin").string(), "Is a directory", "give the folder"});
}

TEST_F(Cifar10, RefusesALengthThatIsNoNumberOfRecords) {
  for (const std::string& name : {std::string("data_batch_5.bin"), std::string("test_batch.bin")}) {
    const std::string whole = read_all(file(name));
    write_plain(file(name), cifar_record(1).substr(1));
    expect_refused(ErrorCode::corrupt, {file(name).string() + " has 3072 bytes", "records of 3073", "fetch it again"});
    write_plain(file(name), cifar_record(1) + "x");
    expect_refused(ErrorCode::corrupt, {file(name).string() + " has 3074 bytes"});
    write_plain(file(name), "");
    expect_refused(ErrorCode::corrupt, {file(name).string() + " is empty", "fetch it again"});
    write_plain(file(name), whole);
  }
}

TEST_F(Cifar10, RefusesALabelAboveNine) {
  write_plain(file("data_batch_3.bin"), cifar_record(3) + cifar_record(10));
  expect_refused(ErrorCode::corrupt, {file("data_batch_3.bin").string() + " has a label 10 at byte 3073 (image 1)",
                                      "0 to 9", "fetch it again"});
  write_plain(file("data_batch_3.bin"), cifar_record(255));
  expect_refused(ErrorCode::corrupt, {"a label 255 at byte 0"});
}

TEST_F(Cifar10, TheTestPartAloneCanBeRead) {
  for (int batch = 1; batch <= 5; ++batch)
    std::filesystem::remove(file("data_batch_" + std::to_string(batch) + ".bin"));
  const Parts parts = open_cifar10({.data = directory_.path(), .evaluates_only = true});
  EXPECT_EQ(parts.train.source, nullptr);
  EXPECT_EQ(parts.val.source->size(), 1);
}

}  // namespace
}  // namespace lockstep::vision
