// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Channels × height × width of one image.
struct ImageShape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  [[nodiscard]] std::int64_t pixels() const { return height * width; }
  [[nodiscard]] std::int64_t elements() const { return channels * pixels(); }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Labeled images in memory, one byte for each element.
struct Images {
  std::string name;
  ImageShape shape;
  std::int64_t classes = 0;
  std::vector<std::uint8_t> images;  ///< size() × channels × height × width, row-major
  std::vector<std::int32_t> labels;  ///< size(), each in 0 … classes − 1

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  /// The elements of one image. @pre 0 ≤ index < size()
  [[nodiscard]] std::span<const std::uint8_t> image(std::int64_t index) const {
    const auto length = static_cast<std::size_t>(shape.elements());
    return {images.data() + static_cast<std::size_t>(index) * length, length};
  }
};

/// Mean and (population) standard deviation of each channel, from exact integer sums, so that it is the same on every
/// rank.
/// @throws Error{invalid_argument} if there are no images
Normalization measure_normalization(const Images& images);

/// A data set of images, which are normalized when they are read, by a table of 256 values for each channel. Its
/// tensors are "images" (real, channels × height × width) and "labels" (one integer).
class ImageDataset final : public Dataset {
 public:
  /// @throws Error{invalid_argument} for a normalization with another number of channels, and for images that violate
  /// the invariants of Images
  ImageDataset(Images images, Normalization normalization);

  [[nodiscard]] std::string name() const override { return images_.name; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override;
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] std::int64_t classes() const override { return images_.classes; }
  [[nodiscard]] const Normalization* bytes_of(std::size_t tensor) const override {
    return tensor == 0 ? &normalization_ : nullptr;
  }
  /// Implements Dataset::read. Images become float32 or float64, or stay uint8, according to the dtype of their tensor.
  /// It does not allocate.
  /// @throws Error{invalid_argument} if the index is not in the data set, or the sample does not fit the tensors
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override;

  /// The images that the data set was made of.
  [[nodiscard]] const Images& images() const { return images_; }

 private:
  void check(std::int64_t index, std::span<const Buffer> tensors) const;

  Images images_;
  Normalization normalization_;
  std::vector<double> table_;        ///< channels × 256
  std::vector<float> single_table_;  ///< the same, rounded
};

/// Makes both data sets, normalized by mean and deviation of the training images.
/// @throws Error{invalid_argument} as measure_normalization() and ImageDataset's constructor
DatasetPair normalized(Images train, Images test);

}  // namespace lockstep::data
