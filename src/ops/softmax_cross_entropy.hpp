// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// Softmax and cross-entropy of plain N×C logits. Exponentials are summed in T, the loss in double.
template <typename T>
class SoftmaxCrossEntropy {
 public:
  explicit SoftmaxCrossEntropy(const Shape& logits) : batch_(logits.batch), classes_(logits.channels) {}

  /// @param gradient  overwritten with softmax − one-hot; may be `logits`; null: not computed
  /// @throws Error{invalid_argument} if a label is not a class
  Loss::Result evaluate(const T* logits, const std::int32_t* labels, T* gradient) const {
    Loss::Result result;
    for (std::int64_t n = 0; n < batch_; ++n) {
      check_label(n, labels[n]);
      add_sample(logits + n * classes_, labels[n], gradient == nullptr ? nullptr : gradient + n * classes_, result);
    }
    return result;
  }

 private:
  void check_label(std::int64_t sample, std::int32_t label) const {
    if (label >= 0 && label < classes_) return;
    throw Error(ErrorCode::invalid_argument, "label of sample " + std::to_string(sample) + " is " +
                                                 std::to_string(label) + "; there are " + std::to_string(classes_) +
                                                 " classes, numbered from 0");
  }

  void add_sample(const T* logits, std::int32_t label, T* gradient, Loss::Result& result) const {
    std::int64_t largest = 0;
    for (std::int64_t c = 1; c < classes_; ++c) {
      if (logits[c] > logits[largest]) largest = c;
    }
    // Shifted by the largest logit, no exponential overflows.
    const T shift = logits[largest];
    T sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(logits[c] - shift);
    result.loss_sum += static_cast<double>(std::log(sum) - (logits[label] - shift));
    result.correct += largest == label ? 1 : 0;
    if (gradient == nullptr) return;
    for (std::int64_t c = 0; c < classes_; ++c) {
      gradient[c] = std::exp(logits[c] - shift) / sum - (c == label ? T{1} : T{0});
    }
  }

  std::int64_t batch_;
  std::int64_t classes_;
};

}  // namespace lockstep::ops
