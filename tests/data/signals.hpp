// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// A custom data set without images and with three tensors. Element i of sample s is 100·s + i in "signal", −s − i/2 in
/// "targets", and s mod 3 in "labels". Tests may change its description to make it ill-formed.
class Signals : public Dataset {
 public:
  explicit Signals(std::int64_t samples) : samples_(samples) {}

  [[nodiscard]] std::string name() const override { return "signals"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return specs; }
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] std::int64_t classes() const override { return class_count; }

  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    ++reads;
    if (key.index == unreadable) throw Error(ErrorCode::io, "sample " + std::to_string(key.index) + " is unreadable");
    for (std::size_t t = 0; t < specs.size(); ++t)
      for (std::int64_t element = 0; element < specs[t].elements(); ++element)
        put(tensors[t], element, value(t, key.index, element));
  }

  /// Returns the value of an element in the tensor of that number.
  [[nodiscard]] static double value(std::size_t tensor, std::int64_t sample, std::int64_t element) {
    if (tensor == 0) return static_cast<double>(100 * sample + element);
    if (tensor == 1) return -static_cast<double>(sample) - static_cast<double>(element) / 2;
    return static_cast<double>(sample % 3);
  }

  std::vector<TensorSpec> specs = {{"signal", {1, 1, 7}, Content::real},
                                   {"targets", {2, 1, 1}, Content::real},
                                   {"labels", {1, 1, 1}, Content::integer}};
  std::int64_t class_count = 3;
  std::int64_t unreadable = -1;  ///< a sample that cannot be read
  mutable std::atomic<int> reads{0};

 private:
  static void put(const Buffer& tensor, std::int64_t at, double value) {
    if (tensor.dtype == DType::float32) static_cast<float*>(tensor.data)[at] = static_cast<float>(value);
    if (tensor.dtype == DType::float64) static_cast<double*>(tensor.data)[at] = value;
    if (tensor.dtype == DType::int32) static_cast<std::int32_t*>(tensor.data)[at] = static_cast<std::int32_t>(value);
  }

  std::int64_t samples_;
};

}  // namespace lockstep::data
