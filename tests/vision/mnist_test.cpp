// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "support/verdict.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/parts_in_memory.hpp"
#include "vision/picture_defaults.hpp"

namespace lockstep::vision {
namespace {

using data::idx_bytes;
using data::read_all;
using data::TemporaryDirectory;
using data::write_gzip;
using data::write_plain;

/// Returns 0, 1, …, 9, 0, 1, …
std::string labels_in_turn(int count, int classes = 10) {
  std::string labels;
  for (int i = 0; i < count; ++i) labels += static_cast<char>(i % classes);
  return labels;
}

Parts open(const std::filesystem::path& folder) { return open_mnist({.data = folder, .counts_classes = true}); }

/// Four files of a tiny data set: 3 training images, 2 test images, 2×2 pixels, 4 classes.
class MnistTest : public testing::Test {
 protected:
  MnistTest() {
    put("train-images-idx3-ubyte", idx_bytes({3, 2, 2}, "abcdefghijkl"));
    put("train-labels-idx1-ubyte", idx_bytes({3}, std::string("\0\3\1", 3)));
    put("t10k-images-idx3-ubyte", idx_bytes({2, 2, 2}, "mnopqrst"));
    put("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\2\0", 2)));
  }

  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  void put(const std::string& name, const std::string& bytes) const { write_plain(file(name), bytes); }
  void expect_refused(ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error([this] { (void)open(directory_.path()); }, code, parts);
  }
  void expect_loads() const {
    const Parts parts = open(directory_.path());
    EXPECT_EQ(parts.train.source->size(), 3);
    EXPECT_EQ(parts.val.source->size(), 2);
    EXPECT_EQ(classes_of(parts.train), 4);
    EXPECT_EQ(classes_of(parts.val), 4);
    EXPECT_EQ(labels_of(parts.train), (std::vector<std::int32_t>{0, 3, 1}));
    const Image picture = picture_of(parts.val, 1);
    EXPECT_EQ(picture.width, 2);
    EXPECT_EQ(picture.height, 2);
    EXPECT_EQ(picture.channels, 1);
    EXPECT_EQ(picture.pixels[0], 'q');
  }

  TemporaryDirectory directory_;
};

TEST_F(MnistTest, ReadsAnyImageSizeAndClassCount) { expect_loads(); }

TEST_F(MnistTest, KnowsTheNamesInUse) {
  const std::vector<std::string> names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  for (const std::string& name : names) {
    const std::string bytes = read_all(file(name));
    std::filesystem::remove(file(name));
    std::string dotted = name;
    dotted[dotted.find("-idx")] = '.';
    for (const std::string& other : {name + ".gz", dotted, dotted + ".gz"}) {
      (other.ends_with(".gz") ? write_gzip : write_plain)(file(other), bytes);
      expect_loads();
      std::filesystem::remove(file(other));
    }
    put(name, bytes);
  }
}

TEST_F(MnistTest, NoFolderGiven) {
  expect_error([] { (void)open({}); }, ErrorCode::invalid_argument,
               {"give the folder that holds", "train-images-idx3-ubyte"});
}

TEST_F(MnistTest, FolderDoesNotExist) {
  expect_error([this] { (void)open(file("nowhere")); }, ErrorCode::io,
               {file("nowhere").string() + " does not exist", "give the folder that holds"});
  expect_error([this] { (void)open(file("train-labels-idx1-ubyte")); }, ErrorCode::io, {"is not a folder"});
  std::filesystem::create_symlink("loop", file("loop"));
  expect_error([this] { (void)open(file("loop")); }, ErrorCode::io,
               {file("loop").string() + " cannot be read: Too many levels of symbolic links"});
}

/// Root may look into every folder.
TEST_F(MnistTest, FolderOrFileWithoutPermissionIsNotMissing) {
  if (geteuid() == 0) {
    std::filesystem::remove(file("t10k-images-idx3-ubyte"));
    std::filesystem::create_symlink("t10k-images-idx3-ubyte", file("t10k-images-idx3-ubyte"));
    return expect_refused(ErrorCode::io, {file("t10k-images-idx3-ubyte").string(), "Too many levels"});
  }
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::none);
  expect_refused(ErrorCode::io, {directory_.path().string() + " cannot be read: Permission denied"});
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::owner_all);
}

TEST_F(MnistTest, MissingFile) {
  std::filesystem::remove(file("t10k-images-idx3-ubyte"));
  expect_refused(ErrorCode::io, {file("t10k-images-idx3-ubyte").string() + " does not exist",
                                 "t10k-images-idx3-ubyte.gz", "t10k-images.idx3-ubyte", "give the folder that holds"});
}

TEST_F(MnistTest, TruncatedFile) {
  put("train-images-idx3-ubyte", idx_bytes({3, 2, 2}, "abcdefgh"));
  expect_refused(ErrorCode::corrupt, {file("train-images-idx3-ubyte").string(), "12 bytes of data expected, 8 found"});
}

TEST_F(MnistTest, MislabelledFile) {
  put("train-images-idx3-ubyte", idx_bytes({3}, "abc"));
  expect_refused(ErrorCode::corrupt,
                 {file("train-images-idx3-ubyte").string(), "holds labels where images are expected"});
}

TEST_F(MnistTest, CountsThatDiffer) {
  put("train-labels-idx1-ubyte", idx_bytes({2}, std::string("\0\1", 2)));
  expect_refused(ErrorCode::corrupt,
                 {"train-images-idx3-ubyte holds 3 images", "train-labels-idx1-ubyte holds 2 labels"});
}

TEST_F(MnistTest, TestImagesOfAnotherSize) {
  put("t10k-images-idx3-ubyte", idx_bytes({2, 4, 1}, "mnopqrst"));
  expect_refused(ErrorCode::corrupt, {"2×2", "4×1"});
}

TEST_F(MnistTest, TestLabelOfNoKnownClass) {
  put("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\4\0", 2)));
  expect_refused(ErrorCode::corrupt, {file("t10k-labels-idx1-ubyte").string() + " has a label 4 (first of image 0)",
                                      "the largest label there is 3"});
}

/// Ten classes of 60 training and 6 test images each.
TEST_F(MnistTest, OneDamagedLabelMakesNoClasses) {
  const std::string train = labels_in_turn(600);
  const std::string test = labels_in_turn(60);
  const auto put_labels = [&](const std::string& of_train, const std::string& of_test) {
    put("train-labels-idx1-ubyte", idx_bytes({600}, of_train));
    put("t10k-labels-idx1-ubyte", idx_bytes({60}, of_test));
  };
  put("train-images-idx3-ubyte", idx_bytes({600, 1, 1}, std::string(600, 'x')));
  put("t10k-images-idx3-ubyte", idx_bytes({60, 1, 1}, std::string(60, 'x')));
  const std::string path = file("train-labels-idx1-ubyte").string();
  for (const int label : {10, 11, 12, 19, 100, 255}) {
    const std::string number = std::to_string(label);
    std::string damaged = train;
    damaged[17] = static_cast<char>(label);
    put_labels(damaged, test);
    expect_refused(ErrorCode::corrupt, {path + " has a label " + number + " (first of image 17)",
                                        label == 10 ? "0 to 9 can stand" : "number the classes from 0", "classes.txt"});
    std::string damaged_test = test;
    damaged_test[5] = static_cast<char>(label);
    put_labels(train, damaged_test);
    expect_refused(ErrorCode::corrupt,
                   {file("t10k-labels-idx1-ubyte").string() + " has a label " + number + " (first of image 5)"});
  }
  put_labels(train, test);
  EXPECT_EQ(classes_of(open(directory_.path()).train), 10);
}

TEST_F(MnistTest, AClassOfAlmostNoImageIsADamagedLabel) {
  std::string train = labels_in_turn(2000, 9);
  put("train-images-idx3-ubyte", idx_bytes({2000, 1, 1}, std::string(2000, 'x')));
  put("t10k-images-idx3-ubyte", idx_bytes({20, 1, 1}, std::string(20, 'x')));
  train[17] = 9;
  std::string test = labels_in_turn(20, 9);
  put("train-labels-idx1-ubyte", idx_bytes({2000}, train));
  put("t10k-labels-idx1-ubyte", idx_bytes({20}, test));
  expect_refused(ErrorCode::corrupt, {file("train-labels-idx1-ubyte").string() + " has a label 9 (first of image 17)",
                                      "1 of 2000 training images"});
  test[3] = 9;
  put("t10k-labels-idx1-ubyte", idx_bytes({20}, test));
  EXPECT_EQ(classes_of(open(directory_.path()).train), 10) << "a rare class, which is tested, too";
}

/// As EMNIST, whose letters are 1 … 26.
TEST_F(MnistTest, AFileNamesMoreThanTenClasses) {
  std::string names = "\n";
  for (int label = 0; label <= 26; ++label) names += "class " + std::to_string(label) + "\r\n";
  put("train-labels-idx1-ubyte", idx_bytes({3}, std::string("\1\x1a\5", 3)));
  expect_refused(ErrorCode::corrupt, {"train-labels-idx1-ubyte has a label 26 (first of image 1)", "classes.txt"});
  put("classes.txt", names);
  const Parts parts = open(directory_.path());
  EXPECT_EQ(classes_of(parts.train), 27);
  EXPECT_EQ(classes_of(parts.val), 27);
  EXPECT_EQ(parts.train.source->class_names()[26], "class 26");
  put("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\2\x1b", 2)));
  expect_refused(ErrorCode::corrupt, {"t10k-labels-idx1-ubyte has a label 27 (first of image 1)", "27 classes"});
  put("classes.txt", " \n");
  expect_refused(ErrorCode::corrupt, {"classes.txt", "names no class"});
}

TEST_F(MnistTest, TheTestPartAloneCanBeRead) {
  std::filesystem::remove(file("train-images-idx3-ubyte"));
  std::filesystem::remove(file("train-labels-idx1-ubyte"));
  const Parts parts = open_mnist({.data = directory_.path(), .evaluates_only = true});
  EXPECT_EQ(parts.train.source, nullptr);
  EXPECT_EQ(parts.val.source->size(), 2);
  EXPECT_EQ(classes_of(parts.val), 10);
  put("t10k-labels-idx1-ubyte", idx_bytes({2}, std::string("\2\xc", 2)));
  expect_error([this] { (void)open_mnist({.data = directory_.path(), .evaluates_only = true}); }, ErrorCode::corrupt,
               {"t10k-labels-idx1-ubyte has a label 12 (first of image 1)"});
}

TEST(Mnist, RealFilesHaveTheKnownCountsAndStatistics) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const std::filesystem::path directory =
      std::filesystem::path(root != nullptr ? root : LOCKSTEP_DATA_DEFAULT) / "mnist";
  if (!std::filesystem::exists(directory)) LOCKSTEP_SKIP(mnist) << directory << " does not exist; set LOCKSTEP_DATA";
  const Parts parts = open(directory);
  EXPECT_EQ(parts.train.source->size(), 60'000);
  EXPECT_EQ(parts.val.source->size(), 10'000);
  EXPECT_EQ(classes_of(parts.train), 10);
  EXPECT_EQ(picture_of(parts.train, 0).width, 28);
  EXPECT_EQ(labels_of(parts.train)[0], 5);
  const Normalization normalization = default_normalization(*parts.train.source, 1);
  EXPECT_NEAR(normalization.mean[0], 0.1307, 5e-5);
  EXPECT_NEAR(normalization.deviation[0], 0.3081, 5e-5);
}

}  // namespace
}  // namespace lockstep::vision
