// SPDX-License-Identifier: Apache-2.0
#include "data/cifar10.hpp"

#include <gtest/gtest.h>

#include <string>

#include "data/idx_files.hpp"

namespace lockstep::data {
namespace {

constexpr std::size_t pixels = 3 * 32 * 32;

/// Every pixel of a colour is the label times ten plus the colour, but the first one, which is 255.
std::string record(int label) {
  std::string bytes(1, static_cast<char>(label));
  for (int colour = 0; colour < 3; ++colour) bytes += std::string(pixels / 3, static_cast<char>(10 * label + colour));
  bytes[1] = static_cast<char>(255);
  return bytes;
}

class Cifar10 : public testing::Test {
 protected:
  Cifar10() {
    for (int batch = 1; batch <= 5; ++batch)
      write_plain(file("data_batch_" + std::to_string(batch) + ".bin"), record(batch) + record(9 - batch));
    write_plain(file("test_batch.bin"), record(7));
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  void expect_refused(ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error([this] { (void)load_cifar10(directory_.path()); }, code, parts);
  }

  TemporaryDirectory directory_;
};

TEST_F(Cifar10, HasTheImagesOfAllBatchesInOrder) {
  const ImagesPair pair = load_cifar10(directory_.path());
  EXPECT_EQ(pair.train.labels, (std::vector<std::int32_t>{1, 8, 2, 7, 3, 6, 4, 5, 5, 4}));
  EXPECT_EQ(pair.test.labels, (std::vector<std::int32_t>{7}));
  EXPECT_EQ(pair.train.shape, (ImageShape{3, 32, 32}));
  EXPECT_EQ(pair.train.classes, 10);
  const auto image = pair.train.image(1);
  EXPECT_EQ(image[0], 255);
  EXPECT_EQ(image[1], 80);
  EXPECT_EQ(image[pixels / 3], 81) << "green after red";
  EXPECT_EQ(image[pixels - 1], 82);
}

TEST_F(Cifar10, IsFoundInTheFolderOfTheArchive) {
  TemporaryDirectory above;
  std::filesystem::copy(directory_.path(), above.path() / "cifar-10-batches-bin");
  EXPECT_EQ(load_cifar10(above.path()).train.size(), 10);
}

TEST_F(Cifar10, RefusesWhatIsMissingOrDamaged) {
  expect_error([] { (void)load_cifar10(""); }, ErrorCode::invalid_argument, {"give the folder"});
  expect_error([this] { (void)load_cifar10(file("none")); }, ErrorCode::io, {"none does not exist"});
  std::filesystem::remove(file("data_batch_3.bin"));
  expect_refused(ErrorCode::io, {"data_batch_3.bin", "No such file", "cifar10.py"});
  write_plain(file("data_batch_3.bin"), record(1).substr(1));
  expect_refused(ErrorCode::corrupt, {"data_batch_3.bin has 3072 bytes", "records of 3073"});
  write_plain(file("data_batch_3.bin"), "");
  expect_refused(ErrorCode::corrupt, {"has 0 bytes"});
  write_plain(file("data_batch_3.bin"), record(3) + record(10));
  expect_refused(ErrorCode::corrupt, {"a label 10 at byte 3073"});
}

}  // namespace
}  // namespace lockstep::data
