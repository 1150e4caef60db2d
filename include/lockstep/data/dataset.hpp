// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/types.hpp"

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

/// Labelled images held in memory, one byte an element.
struct Dataset {
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

/// What is trained on, and what is only evaluated. Both have the same shape and number of classes.
struct DatasetPair {
  Dataset train;
  Dataset test;
};

/// Which data set load_dataset() shall give.
struct DatasetOptions {
  std::string name;                ///< one of dataset_names()
  std::filesystem::path data_dir;  ///< where the files of `mnist` are; the drawn data sets read none
  std::uint64_t seed = 1;          ///< of the drawn data sets
};

/// The names that load_dataset() knows.
std::span<const std::string_view> dataset_names();

/// Reads or draws a data set.
/// @throws Error{invalid_argument} for an unknown name, with the nearest known one, or without the data_dir it needs;
///         Error{io} if a file is missing or cannot be read; Error{corrupt} if its contents are wrong
DatasetPair load_dataset(const DatasetOptions& options);

}  // namespace lockstep::data
