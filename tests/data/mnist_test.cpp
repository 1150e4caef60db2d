// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>

#include "data/idx_files.hpp"
#include "data/images_pair.hpp"
#include "lockstep/data/images.hpp"
#include "support/verdict.hpp"

namespace lockstep::data {
namespace {

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
    expect_error([this] { (void)load_mnist(directory_.path()); }, code, parts);
  }
  void expect_loads() const {
    const ImagesPair pair = load_mnist(directory_.path());
    EXPECT_EQ(pair.train.size(), 3);
    EXPECT_EQ(pair.test.size(), 2);
    EXPECT_EQ(pair.train.classes, 4);
    EXPECT_EQ(pair.test.classes, 4);
    EXPECT_EQ(pair.train.shape, (ImageShape{1, 2, 2}));
    EXPECT_EQ(pair.train.labels, (std::vector<std::int32_t>{0, 3, 1}));
    EXPECT_EQ(pair.test.image(1)[0], 'q');
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
  expect_error([] { (void)load_mnist({}); }, ErrorCode::invalid_argument,
               {"give the folder that holds", "train-images-idx3-ubyte"});
}

TEST_F(MnistTest, FolderDoesNotExist) {
  expect_error([this] { (void)load_mnist(file("nowhere")); }, ErrorCode::io,
               {file("nowhere").string() + " does not exist", "give the folder that holds"});
  expect_error([this] { (void)load_mnist(file("train-labels-idx1-ubyte")); }, ErrorCode::io, {"is not a folder"});
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
  expect_refused(ErrorCode::corrupt, {"the test labels", "contain 4", "the largest label there is 3"});
}

TEST(Mnist, RealFilesHaveTheKnownCountsAndStatistics) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const std::filesystem::path directory =
      std::filesystem::path(root != nullptr ? root : LOCKSTEP_DATA_DEFAULT) / "mnist";
  if (!std::filesystem::exists(directory)) LOCKSTEP_SKIP(mnist) << directory << " does not exist; set LOCKSTEP_DATA";
  const ImagesPair pair = load_mnist(directory);
  EXPECT_EQ(pair.train.size(), 60'000);
  EXPECT_EQ(pair.test.size(), 10'000);
  EXPECT_EQ(pair.train.classes, 10);
  EXPECT_EQ(pair.train.shape, (ImageShape{1, 28, 28}));
  EXPECT_EQ(pair.train.labels[0], 5);
  const Normalization normalization = measure_normalization(pair.train);
  EXPECT_NEAR(normalization.mean[0], 0.1307, 5e-5);
  EXPECT_NEAR(normalization.deviation[0], 0.3081, 5e-5);
}

}  // namespace
}  // namespace lockstep::data
