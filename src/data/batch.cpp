// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/batch.hpp"

#include <algorithm>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

constexpr std::int64_t byte_values = 256;

std::vector<double> make_table(const Normalization& normalization) {
  std::vector<double> table;
  for (std::size_t channel = 0; channel < normalization.mean.size(); ++channel)
    for (std::int64_t value = 0; value < byte_values; ++value)
      table.push_back((static_cast<double>(value) / 255 - normalization.mean[channel]) /
                      normalization.deviation[channel]);
  return table;
}

template <class Real>
void convert(const Dataset& dataset, std::span<const std::int64_t> indices, const Real* table, Real* out) {
  const auto pixels = static_cast<std::size_t>(dataset.shape.pixels());
  for (const std::int64_t index : indices) {
    const std::uint8_t* in = dataset.image(index).data();
    for (std::int64_t channel = 0; channel < dataset.shape.channels; ++channel, in += pixels, out += pixels) {
      const Real* row = table + channel * byte_values;
      for (std::size_t i = 0; i < pixels; ++i) out[i] = row[in[i]];
    }
  }
}

}  // namespace

BatchMaker::BatchMaker(const Dataset& dataset, const Normalization& normalization, DType dtype)
    : dataset_(&dataset),
      dtype_(dtype),
      table_(make_table(normalization)),
      single_table_(table_.begin(), table_.end()) {
  if (dtype != DType::float32 && dtype != DType::float64)
    throw Error(ErrorCode::invalid_argument,
                "batches are made in float32 or float64, not in " + std::string(name(dtype)));
  const auto channels = static_cast<std::size_t>(dataset.shape.channels);
  if (normalization.mean.size() != channels || normalization.deviation.size() != channels)
    throw Error(ErrorCode::invalid_argument, "a normalisation of " + std::to_string(normalization.mean.size()) +
                                                 " channels does not fit the data set \"" + dataset.name + "\" of " +
                                                 std::to_string(channels));
}

void BatchMaker::make(std::span<const std::int64_t> indices, Buffer images, std::span<std::int32_t> labels) const {
  check(indices, images, labels);
  std::transform(indices.begin(), indices.end(), labels.begin(),
                 [this](std::int64_t index) { return dataset_->labels[static_cast<std::size_t>(index)]; });
  if (dtype_ == DType::float32)
    convert(*dataset_, indices, single_table_.data(), static_cast<float*>(images.data));
  else
    convert(*dataset_, indices, table_.data(), static_cast<double*>(images.data));
}

void BatchMaker::check(std::span<const std::int64_t> indices, const Buffer& images,
                       std::span<const std::int32_t> labels) const {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= dataset_->size())
      throw Error(ErrorCode::invalid_argument, "sample " + std::to_string(index) + " is not in the data set \"" +
                                                   dataset_->name + "\" of " + std::to_string(dataset_->size()));
  const auto samples = static_cast<std::int64_t>(indices.size());
  if (images.dtype != dtype_ || images.count.value < samples * sample_elements() || labels.size() < indices.size())
    throw Error(ErrorCode::invalid_argument,
                "a batch of " + std::to_string(samples) + " samples does not fit the memory given for it");
}

}  // namespace lockstep::data
