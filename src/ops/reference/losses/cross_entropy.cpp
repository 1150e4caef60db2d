// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/losses/softmax_tile.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Exponentials are summed in T, the loss in double.
template <typename T>
class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(Formats in, const CrossEntropy& loss)
      : Kernel(loss_traits(in)),
        ignored_(loss.ignore_index),
        weighted_(!loss.class_weights.empty()),
        shares_(loss.label_smoothing, loss.class_weights, in[0].shape.channels),
        logits_(in[0].shape),
        positions_(in[0].shape.height * in[0].shape.width) {}

  void normalizer(const Arguments& call) override {
    const auto* labels = static_cast<const std::int32_t*>(call.inputs[1]);
    double& weight = static_cast<LossSums*>(call.output)->weight;
    if (!weighted_) {
      weight = static_cast<double>(label_count() - std::count(labels, labels + label_count(), ignored_));
      return;
    }
    weight = 0;
    for (std::int64_t i = 0; i < label_count(); ++i) {
      const std::int32_t label = checked(labels[i], i / positions_, call);
      if (label != ignored_) weight += shares_.weight(label);
    }
  }

  void forward(const Arguments& call) override {
    LossSums loss_sums;
    for_each_tile(call, [&](const T* logits, const std::int32_t* labels, std::int64_t count, std::int64_t sample) {
      tile_.compute(logits, logits_, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t label = checked(labels[i], sample, call);
        if (label == ignored_ || mass_of(label) == 0) continue;
        const T shift = tile_.largest(i);
        const T log_sum = std::log(tile_.sum(i));
        loss_sums.weight += shares_.weight(label);
        if (const double own = shares_.own(label); own != 0)
          loss_sums.loss += own * static_cast<double>(log_sum - (tile_.logit(i, label) - shift));
        if (shares_.spread_total() != 0) loss_sums.loss += loss_of_spread(i, shift, log_sum);
        loss_sums.correct += tile_.winner(i) == label ? shares_.weight(label) : 0;
      }
    });
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  /// Computes (softmax − target) times the gradient of the loss and the weights of the target's parts.
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T factor = static_cast<T>(factor_of(call));
    T* gradients = static_cast<T*>(call.input_gradients[0]);
    for_each_tile(call, [&](const T* logits, const std::int32_t* labels, std::int64_t count, std::int64_t sample) {
      tile_.compute(logits, logits_, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t label = checked(labels[i], sample, call);
        const T own = label == ignored_ ? T{0} : static_cast<T>(shares_.own(label));
        const T mass = label == ignored_ ? T{0} : static_cast<T>(mass_of(label));
        tile_.set_target(i, mass == T{0} ? T{0} : factor, mass, own);
      }
      tile_.write_gradients(
          labels, [&](std::int64_t c) { return shares_.spread(c); },
          gradients + (logits - static_cast<const T*>(call.inputs[0])));
    });
  }

 private:
  [[nodiscard]] std::int64_t label_count() const { return logits_.batch * positions_; }

  /// Calls `f(logits, labels, number of positions, sample)` for every tile.
  template <typename F>
  void for_each_tile(const Arguments& call, const F& f) const {
    SoftmaxTile<T>::for_each(logits_, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
      f(static_cast<const T*>(call.inputs[0]) + n * logits_.channels * positions_ + first,
        static_cast<const std::int32_t*>(call.inputs[1]) + n * positions_ + first, count, n);
    });
  }

  /// Returns the total weight of all parts of a label's target.
  [[nodiscard]] double mass_of(std::int32_t label) const { return shares_.own(label) + shares_.spread_total(); }

  [[nodiscard]] double loss_of_spread(std::int64_t position, T shift, T log_sum) const {
    double loss = 0;
    for (std::int64_t c = 0; c < logits_.channels; ++c) {
      if (shares_.spread(c) == T{0}) continue;
      loss +=
          static_cast<double>(shares_.spread(c)) * static_cast<double>(log_sum - (tile_.logit(position, c) - shift));
    }
    return loss;
  }

  /// Returns the label; one that is no class is reported and ignored.
  std::int32_t checked(std::int32_t label, std::int64_t sample, const Arguments& call) const {
    if ((label >= 0 && label < logits_.channels) || label == ignored_) return label;
    call.report(FaultCode::label, sample, label, logits_.channels);
    return ignored_;
  }

  std::int32_t ignored_;
  bool weighted_;
  ClassShares<T> shares_;
  Shape logits_;
  std::int64_t positions_;
  SoftmaxTile<T> tile_;
};

/// Computes Σ target · weight · −log softmax at each position. Exponentials are summed in T, the loss in double.
template <typename T>
class SoftCrossEntropyKernel final : public Kernel {
 public:
  SoftCrossEntropyKernel(Formats in, const SoftCrossEntropy& loss)
      : Kernel(loss_traits(in)),
        shares_(loss.label_smoothing, loss.class_weights, in[0].shape.channels),
        logits_(in[0].shape),
        positions_(in[0].shape.height * in[0].shape.width) {}

  void normalizer(const Arguments& call) override { static_cast<LossSums*>(call.output)->weight = weight(); }

  void forward(const Arguments& call) override {
    LossSums loss_sums{.weight = weight()};
    visit(call, [&](const Scores<T>& logits, const Scores<T>& targets, std::int64_t /*offset*/) {
      const std::int64_t largest = logits.largest();
      const T shift = logits[largest];
      const T log_sum = std::log(logits.sum_of_exponentials(shift));
      for (std::int64_t c = 0; c < logits.classes; ++c) {
        const double target = share(targets, c);
        if (target != 0) loss_sums.loss += target * static_cast<double>(log_sum - (logits[c] - shift));
      }
      loss_sums.correct += largest == targets.largest() ? 1 : 0;
    });
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  void backward(const Arguments& call) override {
    const auto factor = static_cast<T>(factor_of(call));
    T* of_logits = static_cast<T*>(call.input_gradients[0]);
    T* of_targets = static_cast<T*>(call.input_gradients[1]);
    visit(call, [&](const Scores<T>& logits, const Scores<T>& targets, std::int64_t offset) {
      const T shift = logits[logits.largest()];
      const T sum = logits.sum_of_exponentials(shift);
      if (of_logits != nullptr) set_logits(logits, targets, factor, shift, sum, of_logits + offset);
      if (of_targets == nullptr) return;
      const T log_sum = std::log(sum);
      for (std::int64_t c = 0; c < logits.classes; ++c) {
        const auto own = static_cast<T>(shares_.own(c));
        of_targets[offset + c * positions_] = scaled(factor * own, log_sum - (logits[c] - shift));
      }
    });
  }

 private:
  [[nodiscard]] double weight() const { return static_cast<double>(logits_.batch * positions_); }

  /// Returns the factor of a class's −log softmax.
  [[nodiscard]] double share(const Scores<T>& targets, std::int64_t c) const {
    return shares_.own(c) * static_cast<double>(targets[c]) + static_cast<double>(shares_.spread(c));
  }

  void set_logits(const Scores<T>& logits, const Scores<T>& targets, T factor, T shift, T sum, T* gradient) const {
    double mass = 0;
    for (std::int64_t c = 0; c < logits.classes; ++c) mass += share(targets, c);
    for (std::int64_t c = 0; c < logits.classes; ++c) {
      const T probability = std::exp(logits[c] - shift) / sum;
      const T difference = static_cast<T>(mass) * probability - static_cast<T>(share(targets, c));
      gradient[c * positions_] = scaled(factor, difference);
    }
  }

  /// Calls `f(logits, targets, index of their first class)` for every position.
  template <typename F>
  void visit(const Arguments& call, const F& f) const {
    const auto* logits = static_cast<const T*>(call.inputs[0]);
    const auto* targets = static_cast<const T*>(call.inputs[1]);
    for (std::int64_t i = 0; i < logits_.batch * positions_; ++i) {
      const std::int64_t offset = i / positions_ * logits_.channels * positions_ + i % positions_;
      f(Scores<T>{logits + offset, logits_.channels, positions_},
        Scores<T>{targets + offset, logits_.channels, positions_}, offset);
    }
  }

  ClassShares<T> shares_;
  Shape logits_;
  std::int64_t positions_;
};

}  // namespace

KernelPtr make(const CrossEntropy& loss, Formats in) { return make_for<CrossEntropyKernel>(in, loss); }

KernelPtr make(const SoftCrossEntropy& loss, Formats in) { return make_for<SoftCrossEntropyKernel>(in, loss); }

}  // namespace lockstep::ops::reference
