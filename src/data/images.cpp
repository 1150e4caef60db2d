// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/images.hpp"

#include <algorithm>

#include "data/channel_sums.hpp"
#include "data/check.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

constexpr std::int64_t byte_values = 256;

template <class Real>
void convert(const Images& images, std::int64_t index, const Real* table, Real* out) {
  const auto pixels = static_cast<std::size_t>(images.shape.pixels());
  const std::uint8_t* in = images.image(index).data();
  for (std::int64_t channel = 0; channel < images.shape.channels; ++channel, in += pixels, out += pixels) {
    const Real* row = table + channel * byte_values;
    for (std::size_t i = 0; i < pixels; ++i) out[i] = row[in[i]];
  }
}

[[noreturn]] void refuse_images(const Images& images, const std::string& before, const std::string& after) {
  throw Error(ErrorCode::invalid_argument, before + " the data set \"" + images.name + "\"" + after);
}

void check_images(const Images& images) {
  const auto expected = static_cast<std::size_t>(images.size() * images.shape.elements());
  if (images.images.size() != expected)
    refuse_images(images, "the images of",
                  " have " + std::to_string(images.images.size()) + " bytes; " + std::to_string(images.size()) +
                      " labels and their shape ask for " + std::to_string(expected));
  for (const std::int32_t label : images.labels)
    if (label < 0 || label >= images.classes)
      refuse_images(images, "a label of",
                    " is " + std::to_string(label) + "; with " + std::to_string(images.classes) +
                        " classes it must be in 0 … " + std::to_string(images.classes - 1));
}

/// Checks that the memory passed for a tensor has the right kind and enough elements.
void check_memory(const Images& images, const char* tensor, const Buffer& memory, bool right_dtype,
                  std::int64_t elements) {
  const auto refuse = [&](const std::string& what) {
    refuse_images(images, "the tensor \"" + std::string(tensor) + "\" of", what);
  };
  if (!right_dtype) refuse(" cannot be read as " + std::string(name(memory.dtype)));
  if (memory.kind == MemoryKind::device) refuse(" is read into the host's memory only");
  if (memory.count.value < elements)
    refuse(" takes " + std::to_string(elements) + " elements, more than the " + std::to_string(memory.count.value) +
           " that there is memory for");
}

ChannelSums sums_of_channel(const Images& images, std::int64_t channel) {
  const auto pixels = static_cast<std::size_t>(images.shape.pixels());
  ChannelSums sums;
  for (std::int64_t i = 0; i < images.size(); ++i)
    for (const std::uint8_t value : images.image(i).subspan(static_cast<std::size_t>(channel) * pixels, pixels))
      sums.add(value);
  return sums;
}

}  // namespace

ImageDataset::ImageDataset(Images images, Normalization normalization)
    : images_(std::move(images)), normalization_(std::move(normalization)) {
  check_tensors(images_.name, tensors());
  check_images(images_);
  const auto channels = static_cast<std::size_t>(images_.shape.channels);
  const std::size_t means = normalization_.mean.size();
  const std::size_t deviations = normalization_.deviation.size();
  if (means != channels || deviations != channels)
    refuse_images(images_,
                  "a normalization of " + std::to_string(means) + " means and " + std::to_string(deviations) +
                      " deviations does not fit",
                  " of " + std::to_string(channels) + " channels");
  table_ = normalization_.table();
  single_table_.assign(table_.begin(), table_.end());
}

std::vector<TensorSpec> ImageDataset::tensors() const {
  const ImageShape& shape = images_.shape;
  return {{"images", {shape.channels, shape.height, shape.width}, Content::real},
          {"labels", {1, 1, 1}, Content::integer}};
}

void ImageDataset::read(const SampleKey& key, std::span<const Buffer> tensors) const {
  check(key.index, tensors);
  const Buffer& images = tensors[0];
  *static_cast<std::int32_t*>(tensors[1].data) = images_.labels[static_cast<std::size_t>(key.index)];
  if (images.dtype == DType::float32) {
    convert(images_, key.index, single_table_.data(), static_cast<float*>(images.data));
  } else if (images.dtype == DType::float64) {
    convert(images_, key.index, table_.data(), static_cast<double*>(images.data));
  } else {
    const auto image = images_.image(key.index);
    std::copy(image.begin(), image.end(), static_cast<std::uint8_t*>(images.data));
  }
}

void ImageDataset::check(std::int64_t index, std::span<const Buffer> tensors) const {
  if (index < 0 || index >= size())
    refuse_images(images_, "sample " + std::to_string(index) + " is not in", " of " + std::to_string(size()));
  if (tensors.size() != 2)
    refuse_images(images_, "two tensors, images and labels, are read of",
                  ", but memory is given for " + std::to_string(tensors.size()));
  const DType real = tensors[0].dtype;
  check_memory(images_, "images", tensors[0], real == DType::float32 || real == DType::float64 || real == DType::uint8,
               images_.shape.elements());
  check_memory(images_, "labels", tensors[1], tensors[1].dtype == DType::int32, 1);
}

DatasetPair normalized(Images train, Images test) {
  const Normalization normalization = measure_normalization(train);
  return {std::make_shared<ImageDataset>(std::move(train), normalization),
          std::make_shared<ImageDataset>(std::move(test), normalization)};
}

Normalization measure_normalization(const Images& images) {
  const auto count = static_cast<double>(images.size() * images.shape.pixels());
  if (count == 0)
    throw Error(ErrorCode::invalid_argument, "the data set \"" + images.name + "\" is empty: nothing to normalize by");
  Normalization result;
  for (std::int64_t channel = 0; channel < images.shape.channels; ++channel)
    append_channel(sums_of_channel(images, channel), count, result);
  return result;
}

}  // namespace lockstep::data
