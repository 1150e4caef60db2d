// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/error.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {

namespace {

/// Exponentials are summed in T, the loss in double.
template <typename T>
class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(const Format& logits, const CrossEntropy& loss)
      : Kernel({.inputs = {logits, labels_of(logits)},
                .output = Format::plain({1, 3, 1, 1}, DType::float64),
                .backward_reads_output = false}),
        ignored_(loss.ignore_index),
        logits_(logits.shape),
        positions_(logits.shape.height * logits.shape.width) {}

  void weigh(const Arguments& call) override {
    const auto* labels = static_cast<const std::int32_t*>(call.inputs[1]);
    const auto ignored = std::count(labels, labels + label_count(), ignored_);
    static_cast<Figures*>(call.output)->weight = static_cast<double>(label_count() - ignored);
  }

  void forward(const Arguments& call) override {
    Figures figures;
    visit(call, [&](const T* logits, std::int64_t index, std::int32_t label) {
      if (label == ignored_) return;
      check(label, index);
      const std::int64_t largest = largest_of(logits);
      // Shifted by the largest logit, no exponential overflows.
      const T shift = logits[largest * positions_];
      figures.weight += 1;
      figures.loss +=
          static_cast<double>(std::log(sum_of_exponentials(logits, shift)) - (logits[label * positions_] - shift));
      figures.correct += largest == label ? 1 : 0;
    });
    *static_cast<Figures*>(call.output) = figures;
  }

  /// softmax − one-hot, times the gradient of the loss.
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T factor = static_cast<T>(*static_cast<const double*>(call.output_gradient));
    const auto* first = static_cast<const T*>(call.inputs[0]);
    T* gradients = static_cast<T*>(call.input_gradients[0]);
    visit(call, [&](const T* logits, std::int64_t /*index*/, std::int32_t label) {
      T* gradient = gradients + (logits - first);
      const T shift = logits[largest_of(logits) * positions_];
      const T scale = label == ignored_ ? T{0} : factor;
      const T sum = sum_of_exponentials(logits, shift);
      for (std::int64_t c = 0; c < logits_.channels; ++c) {
        const T probability = std::exp(logits[c * positions_] - shift) / sum;
        gradient[c * positions_] = scale == T{0} ? T{0} : scale * (probability - (c == label ? T{1} : T{0}));
      }
    });
  }

 private:
  static Format labels_of(const Format& logits) {
    return Format::plain({logits.shape.batch, 1, logits.shape.height, logits.shape.width}, DType::int32);
  }
  [[nodiscard]] std::int64_t label_count() const { return logits_.batch * positions_; }

  /// Calls `f(logit of the first class, index of the label, label)` for every position; classes are `positions_` apart.
  template <typename F>
  void visit(const Arguments& call, const F& f) const {
    const auto* logits = static_cast<const T*>(call.inputs[0]);
    const auto* labels = static_cast<const std::int32_t*>(call.inputs[1]);
    for (std::int64_t i = 0; i < label_count(); ++i) {
      f(logits + i / positions_ * logits_.channels * positions_ + i % positions_, i, labels[i]);
    }
  }

  [[nodiscard]] std::int64_t largest_of(const T* logits) const {
    std::int64_t largest = 0;
    for (std::int64_t c = 1; c < logits_.channels; ++c) {
      if (logits[c * positions_] > logits[largest * positions_]) largest = c;
    }
    return largest;
  }

  [[nodiscard]] T sum_of_exponentials(const T* logits, T shift) const {
    T sum = 0;
    for (std::int64_t c = 0; c < logits_.channels; ++c) sum += std::exp(logits[c * positions_] - shift);
    return sum;
  }

  void check(std::int32_t label, std::int64_t index) const {
    if (label >= 0 && label < logits_.channels) return;
    throw Error(ErrorCode::invalid_argument, "label of sample " + std::to_string(index / positions_) + " is " +
                                                 std::to_string(label) + "; there are " +
                                                 std::to_string(logits_.channels) + " classes, numbered from 0");
  }

  std::int32_t ignored_;
  Shape logits_;
  std::int64_t positions_;
};

}  // namespace

std::unique_ptr<Kernel> make(const CrossEntropy& loss, std::span<const Format> in) {
  return make_for<CrossEntropyKernel>(in, loss);
}

}  // namespace lockstep::ops::reference
