// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/images.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "data/read_samples.hpp"
#include "data/small_dataset.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

/// Converts bytes without a table.
template <class Real>
Real converted(std::uint8_t byte, const Normalization& normalization, std::size_t channel) {
  return static_cast<Real>((static_cast<double>(byte) / 255 - normalization.mean[channel]) /
                           normalization.deviation[channel]);
}

template <class Real>
void expect_normalized() {
  const Images original = small_images(9);
  const Normalization normalization = measure_normalization(original);
  const ImageDataset dataset(original, normalization);
  const std::array<std::int64_t, 3> indices = {4, 0, 8};
  std::vector<Real> images(3 * 24);
  std::vector<std::int32_t> labels(3);
  read_samples(dataset, indices, std::array<Buffer, 2>{std::span(images), std::span(labels)});
  EXPECT_EQ(labels, (std::vector<std::int32_t>{4, 0, 8}));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::uint8_t byte = original.image(indices[i / 24])[i % 24];
    ASSERT_EQ(images[i], converted<Real>(byte, normalization, i % 24 / 12)) << i;
  }
}

TEST(ImageDataset, GathersAndNormalizesFloat32) { expect_normalized<float>(); }
TEST(ImageDataset, GathersAndNormalizesFloat64) { expect_normalized<double>(); }

TEST(ImageDataset, SaysWhatItConsistsOf) {
  const auto dataset = small_dataset(3);
  EXPECT_EQ(dataset->name(), "small");
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->tensors(),
            (std::vector<TensorSpec>{{"images", {2, 3, 4}, Content::real}, {"labels", {1, 1, 1}, Content::integer}}));
  EXPECT_EQ(dataset->images().images, small_images(3).images);
}

TEST(ImageDataset, LeavesTheRestOfTheMemoryAlone) {
  const auto dataset = small_dataset(2);
  std::vector<float> images(48, 99);
  std::vector<std::int32_t> labels(2, 99);
  const std::array<Buffer, 2> memory = {std::span(images), std::span(labels)};
  dataset->read({.index = 1}, memory);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{1, 99}));
  EXPECT_NE(images[23], 99);
  EXPECT_EQ(images[24], 99);
}

class ImageDatasetMemory : public testing::Test {
 protected:
  void read(std::int64_t index, const std::vector<Buffer>& tensors) const { dataset_->read({.index = index}, tensors); }
  void expect_refused(std::int64_t index, const std::vector<Buffer>& tensors, const std::string& message) const {
    expect_error([&] { read(index, tensors); }, ErrorCode::invalid_argument, {message});
  }
  /// Returns the first elements of the memory for images; `labels` returns all of its own.
  [[nodiscard]] Buffer images(std::int64_t elements, DType dtype = DType::float32, MemoryKind kind = MemoryKind::host) {
    return {images_.data(), {elements}, dtype, kind};
  }
  [[nodiscard]] Buffer labels(DType dtype = DType::int32, std::int64_t elements = 1) {
    return {labels_.data(), {elements}, dtype};
  }

  std::shared_ptr<const ImageDataset> dataset_ = small_dataset(3);
  std::vector<double> images_ = std::vector<double>(48);
  std::vector<std::int64_t> labels_ = std::vector<std::int64_t>(2);
};

TEST_F(ImageDatasetMemory, RefusesIndicesOfNoSample) {
  EXPECT_NO_THROW(read(2, {images(24), labels()}));
  expect_refused(3, {images(24), labels()}, R"(sample 3 is not in the data set "small" of 3)");
  expect_refused(-1, {images(24), labels()}, R"(sample -1 is not in the data set "small" of 3)");
}

TEST_F(ImageDatasetMemory, RefusesWhatIsTooSmall) {
  expect_refused(0, {images(23), labels()},
                 R"(the tensor "images" of the data set "small" takes 24 elements, more than the 23 that)");
  expect_refused(0, {images(24), labels(DType::int32, 0)},
                 R"(the tensor "labels" of the data set "small" takes 1 elements, more than the 0 that)");
}

TEST_F(ImageDatasetMemory, RefusesWhatIsOfAnotherKind) {
  expect_refused(0, {images(24, DType::int32), labels()},
                 R"(the tensor "images" of the data set "small" cannot be read as int32)");
  expect_refused(0, {images(24, DType::bfloat16), labels()}, "cannot be read as bfloat16");
  expect_refused(0, {images(24), labels(DType::int64)},
                 R"(the tensor "labels" of the data set "small" cannot be read as int64)");
  expect_refused(0, {images(24, DType::float32, MemoryKind::device), labels()}, "is read into the host's memory only");
  expect_refused(0, {images(24)}, "memory is given for 1");
  expect_refused(0, {images(24), labels(), labels()}, "memory is given for 3");
}

TEST(ImageDataset, RefusesANormalizationOfOtherChannels) {
  const auto make = [](const Normalization& normalization) { (void)ImageDataset(small_images(3), normalization); };
  EXPECT_NO_THROW(make({{0.5, 0.5}, {0.5, 0.5}}));
  expect_error(
      [&] {
        make({{0.5}, {0.5}});
      },
      ErrorCode::invalid_argument, {R"(1 means and 1 deviations does not fit the data set "small" of 2 channels)"});
  expect_error([&] { make({{0.5, 0.5}, {0.5}}); }, ErrorCode::invalid_argument, {"2 means and 1 deviations"});
}

TEST(ImageDataset, RefusesImagesThatDoNotBelongTogether) {
  const auto expect_refused = [](Images images, const std::string& message) {
    expect_error(
        [&] {
          (void)ImageDataset(std::move(images), {{0.5, 0.5}, {0.5, 0.5}});
        },
        ErrorCode::invalid_argument, {R"(the data set "small")", message});
  };
  Images images = small_images(3);
  images.images.pop_back();
  expect_refused(images, "have 71 bytes; 3 labels and their shape ask for 72");
  images = small_images(3);
  images.labels[1] = 10;
  expect_refused(images, "is 10; with 10 classes it must be in 0 … 9");
  images.labels[1] = -1;
  expect_refused(images, "is -1; with 10 classes");
  expect_refused(small_images(3, {2, 0, 4}), R"(has a tensor "images" of 2×0×4; each extent must be at least 1)");
}

TEST(Normalized, UsesTheTrainingImagesForBoth) {
  const Images train = small_images(9);
  const Normalization normalization = measure_normalization(train);
  const Images test{.name = "small", .shape = {2, 1, 1}, .classes = 10, .images = {200, 0}, .labels = {7}};
  const DatasetPair pair = normalized(train, test);
  std::vector<double> images(2);
  std::vector<std::int32_t> labels(1);
  pair.test->read({.index = 0}, std::array<Buffer, 2>{std::span(images), std::span(labels)});
  EXPECT_EQ(labels[0], 7);
  EXPECT_EQ(images,
            (std::vector<double>{converted<double>(200, normalization, 0), converted<double>(0, normalization, 1)}));
  EXPECT_EQ(pair.train->size(), 9);
}

TEST(Normalized, NeedsTrainingImagesOfTheSameChannels) {
  EXPECT_THROW((void)normalized({.name = "none"}, small_images(1)), Error);
  EXPECT_THROW((void)normalized(small_images(1), small_images(1, {1, 3, 4})), Error);
}

}  // namespace
}  // namespace lockstep::data
