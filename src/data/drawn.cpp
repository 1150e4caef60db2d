// SPDX-License-Identifier: Apache-2.0
#include "data/drawn.hpp"

#include <algorithm>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

std::vector<TensorSpec> DrawnDataset::tensors() const {
  const ImageShape& shape = images_.shape;
  std::vector<TensorSpec> specs{{"images", {shape.channels, shape.height, shape.width}, Content::real}};
  for (TensorSpec& spec : targets()) specs.push_back(std::move(spec));
  return specs;
}

void DrawnDataset::read(const SampleKey& key, std::span<const Buffer> tensors) const {
  if (tensors.size() < 2)
    throw Error(ErrorCode::invalid_argument, "all tensors of the data set \"" + name() +
                                                 "\" are read together, but memory is given for " +
                                                 std::to_string(tensors.size()));
  if (key.index < 0 || key.index >= size())
    throw Error(ErrorCode::invalid_argument, "sample " + std::to_string(key.index) + " is not in the data set \"" +
                                                 name() + "\" of " + std::to_string(size()));
  read_image(key.index, tensors[0]);
  read_targets(static_cast<std::size_t>(key.index), tensors.subspan(1));
}

void DrawnDataset::put(const Buffer& tensor, std::int64_t at, double value) {
  if (tensor.dtype == DType::float32) static_cast<float*>(tensor.data)[at] = static_cast<float>(value);
  if (tensor.dtype == DType::float64) static_cast<double*>(tensor.data)[at] = value;
  if (tensor.dtype == DType::int32) static_cast<std::int32_t*>(tensor.data)[at] = static_cast<std::int32_t>(value);
}

void DrawnDataset::read_image(std::int64_t sample, const Buffer& tensor) const {
  const std::span<const std::uint8_t> image = images_.image(sample);
  if (tensor.dtype == DType::uint8) {
    std::copy(image.begin(), image.end(), static_cast<std::uint8_t*>(tensor.data));
    return;
  }
  const std::int64_t pixels = images_.shape.pixels();
  for (std::int64_t i = 0; i < images_.shape.elements(); ++i) {
    const auto channel = static_cast<std::size_t>(i / pixels);
    const double value = static_cast<double>(image[static_cast<std::size_t>(i)]) / 255;
    put(tensor, i, (value - normalization_.mean[channel]) / normalization_.deviation[channel]);
  }
}

}  // namespace lockstep::data
