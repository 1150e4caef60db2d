// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/batch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "data/small_dataset.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

template <class Real>
void expect_normalised(DType dtype) {
  const Dataset dataset = small_dataset(9);
  const Normalization normalization = measure_normalization(dataset);
  const BatchMaker maker(dataset, normalization, dtype);
  const std::array<std::int64_t, 3> indices = {4, 0, 8};
  std::vector<Real> images(3 * 24);
  std::vector<std::int32_t> labels(3);
  maker.make(indices, {images.data(), {72}, dtype}, labels);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{4, 0, 8}));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const double byte = dataset.image(indices[i / 24])[i % 24];
    const std::size_t channel = i % 24 / 12;
    const double expected = (byte / 255 - normalization.mean[channel]) / normalization.deviation[channel];
    ASSERT_EQ(images[i], static_cast<Real>(expected)) << i;
  }
}

TEST(BatchMaker, GathersAndNormalisesFloat32) { expect_normalised<float>(DType::float32); }
TEST(BatchMaker, GathersAndNormalisesFloat64) { expect_normalised<double>(DType::float64); }

TEST(BatchMaker, LeavesTheRestOfTheMemoryAlone) {
  const Dataset dataset = small_dataset(2);
  const BatchMaker maker(dataset, measure_normalization(dataset), DType::float32);
  std::vector<float> images(48, 99);
  std::vector<std::int32_t> labels(2, 99);
  maker.make({}, {images.data(), {48}}, labels);
  EXPECT_EQ(images, std::vector<float>(48, 99));
  const std::array<std::int64_t, 1> one = {1};
  maker.make(one, {images.data(), {48}}, labels);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{1, 99}));
  EXPECT_NE(images[23], 99);
  EXPECT_EQ(images[24], 99);
}

TEST(BatchMaker, RefusesWhatDoesNotFit) {
  const Dataset dataset = small_dataset(3);
  const Normalization normalization = measure_normalization(dataset);
  EXPECT_THROW(BatchMaker(dataset, normalization, DType::int32), Error);
  EXPECT_THROW(BatchMaker(dataset, {{0.5}, {0.5}}, DType::float32), Error);

  const BatchMaker maker(dataset, normalization, DType::float32);
  std::vector<float> images(48);
  std::vector<std::int32_t> labels(2);
  const auto make = [&](const std::vector<std::int64_t>& indices, std::int64_t elements, DType dtype) {
    maker.make(indices, {images.data(), {elements}, dtype}, labels);
  };
  EXPECT_NO_THROW(make({0, 2}, 48, DType::float32));
  EXPECT_THROW(make({0, 3}, 48, DType::float32), Error);     // no such sample
  EXPECT_THROW(make({-1}, 48, DType::float32), Error);       // no such sample
  EXPECT_THROW(make({0, 1}, 47, DType::float32), Error);     // too few elements
  EXPECT_THROW(make({0, 1, 2}, 72, DType::float32), Error);  // too few labels
  EXPECT_THROW(make({0}, 24, DType::float64), Error);
}

}  // namespace
}  // namespace lockstep::data
