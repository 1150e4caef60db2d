// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/libraries.hpp"

namespace lockstep::ops::test {

/// A loss in float32 with real inputs, then integer inputs.
class LossTrial {
 public:
  struct Input {
    Shape shape;
    std::vector<float> real;
    std::vector<std::int32_t> integers = {};
  };
  /// Takes the first of `libraries`, which is the one that has the losses.
  LossTrial(const Operator& op, std::vector<Input> inputs)
      : ops_(std::move(libraries().front())), inputs_(std::move(inputs)) {
    std::vector<Format> formats;
    for (const Input& input : inputs_)
      formats.push_back(Format::plain(input.shape, input.integers.empty() ? DType::float32 : DType::int32));
    kernel_ = ops_->make(op, formats);
    saved_.resize(static_cast<std::size_t>(kernel_->traits().saved.value) / sizeof(double));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      if (input.integers.empty()) input.real = to_format(*ops_, input.real, kernel_->traits().inputs[i]);
      pointers_.push_back(input.integers.empty() ? static_cast<const void*>(input.real.data()) : input.integers.data());
      gradients_.emplace_back(input.real.size(), 77.0F);
    }
  }

  LossSums run(Pass pass) {
    LossSums loss_sums{-1, -1, -1};
    kernel_->run(pass, {.inputs = pointers_,
                        .output = &loss_sums,
                        .saved = pass == Pass::infer ? nullptr : saved_.data(),
                        .fault = &fault_});
    return loss_sums;
  }
  /// Runs forward and backward. @return the input's gradient
  std::vector<float> backward(std::size_t input, double factor = 1) {
    run(Pass::forward);
    std::vector<void*> wanted(inputs_.size());
    wanted[input] = gradients_[input].data();
    if (kernel_->traits().input_gradients == Writes::accumulates)
      std::fill(gradients_[input].begin(), gradients_[input].end(), 0.0F);
    kernel_->run(Pass::backward,
                 {.inputs = pointers_, .saved = saved_.data(), .output_gradient = &factor, .input_gradients = wanted});
    return from_format(*ops_, gradients_[input], kernel_->traits().inputs[input]);
  }
  void forget(std::size_t input) { pointers_[input] = nullptr; }
  /// The first bad value.
  [[nodiscard]] std::string fault() const { return text_of(fault_, "sample " + std::to_string(fault_.sample)); }

 private:
  std::unique_ptr<Ops> ops_;
  std::vector<Input> inputs_;
  std::vector<const void*> pointers_;
  std::vector<std::vector<float>> gradients_;
  std::vector<double> saved_;
  std::unique_ptr<Kernel> kernel_;
  Fault fault_;
};

}  // namespace lockstep::ops::test
