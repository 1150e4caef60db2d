// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Images of one channel whose training steps have one of several sizes, in turn. An image of a sample is its label,
/// sample mod 10, in a wave that is as wide as the image.
class DatasetOfSizes final : public Dataset {
 public:
  using Size = std::array<std::int64_t, 2>;  ///< height and width

  explicit DatasetOfSizes(std::int64_t samples, std::vector<Size> sizes = {{8, 8}, {4, 4}, {12, 12}})
      : samples_(samples), sizes_(std::move(sizes)) {}

  [[nodiscard]] std::string name() const override { return "sizes"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return extents().front(); }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> extents() const override {
    std::vector<std::vector<TensorSpec>> all;
    for (const auto& [height, width] : sizes_)
      all.push_back({{"images", {channels, height, width}}, {"labels", {1, 1, 1}, Content::integer}});
    return all;
  }
  [[nodiscard]] std::size_t extents_of(const StepKey& key) const override {
    return static_cast<std::size_t>(key.step + key.epoch) % (sizes_.size() + beyond);
  }
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] std::int64_t classes() const override { return 10; }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    const Buffer& image = tensors[0];
    for (std::int64_t i = 0; i < image.count.value; ++i) {
      const std::int64_t column = i % sizes_[key.extents][1];
      const double value = static_cast<double>(key.index % 10 + column % (key.index % 3 + 2)) / 8 - 0.5;
      if (image.dtype == DType::float64) {
        static_cast<double*>(image.data)[i] = value;
      } else {
        static_cast<float*>(image.data)[i] = static_cast<float>(value);
      }
    }
    *static_cast<std::int32_t*>(tensors[1].data) = static_cast<std::int32_t>(key.index % 10);
  }

  std::int64_t channels = 1;
  std::size_t beyond = 0;  ///< number of extents that it draws and does not have

 private:
  std::int64_t samples_;
  std::vector<Size> sizes_;
};

/// The same images, of which those with the index i modulo 3 are evaluated in the group with that number, which has the
/// size with that number. Training steps have the first size.
class DatasetOfGroups final : public Dataset {
 public:
  explicit DatasetOfGroups(std::int64_t samples) : images_(samples, {{8, 8}, {4, 4}, {12, 8}}) {}

  [[nodiscard]] std::string name() const override { return "groups"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return images_.tensors(); }
  [[nodiscard]] std::vector<EvaluationGroup> evaluation_groups() const override {
    std::vector<EvaluationGroup> groups;
    for (std::int64_t number = 0; number < 3; ++number) {
      EvaluationGroup& group = groups.emplace_back();
      group.tensors = images_.extents()[static_cast<std::size_t>(number)];
      for (std::int64_t sample = size() - 1; sample >= 0; --sample)
        if (sample % 3 == number) group.samples.push_back(sample);
    }
    return groups;
  }
  [[nodiscard]] std::int64_t size() const override { return images_.size(); }
  [[nodiscard]] std::int64_t classes() const override { return images_.classes(); }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    SampleKey of_size = key;
    of_size.extents = key.extents == 0 ? 0 : key.extents - 1;
    images_.read(of_size, tensors);
  }

 private:
  DatasetOfSizes images_;
};

}  // namespace lockstep::data
