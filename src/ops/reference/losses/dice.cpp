// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/reference/losses/losses.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Saved are the dividend and the divisor of each sample and channel.
template <typename T>
class DiceKernel final : public Kernel {
 public:
  DiceKernel(Formats in, const Dice& loss)
      : Kernel(loss_traits(in, {planes_of(in[0].shape) * static_cast<std::int64_t>(sizeof(Ratio))})),
        epsilon_(loss.epsilon),
        planes_(planes_of(in[0].shape)),
        positions_(in[0].shape.height * in[0].shape.width) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = static_cast<double>(planes_);
  }
  void forward(const Arguments& call) override { sum_up(call, static_cast<Ratio*>(call.saved)); }
  void infer(const Arguments& call) override { sum_up(call, nullptr); }

  /// The loss subtracts n ÷ d, whose gradient is n' ÷ d − n·d' ÷ d².
  void backward(const Arguments& call) override {
    const auto factor = static_cast<T>(factor_of(call));
    T* of_logits = static_cast<T*>(call.input_gradients[0]);
    T* of_targets = static_cast<T*>(call.input_gradients[1]);
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      const Ratio& ratio = static_cast<const Ratio*>(call.saved)[plane];
      const auto twice = static_cast<T>(2 / ratio.divisor);
      const auto once = static_cast<T>(ratio.dividend / ratio.divisor / ratio.divisor);
      for (std::int64_t i = plane * positions_; i < (plane + 1) * positions_; ++i) {
        const T p = sigmoid(static_cast<const T*>(call.inputs[0])[i]);
        const T t = static_cast<const T*>(call.inputs[1])[i];
        if (of_logits != nullptr) of_logits[i] = scaled(factor, (once - twice * t) * p * (T{1} - p));
        if (of_targets != nullptr) of_targets[i] = scaled(factor, once - twice * p);
      }
    }
  }

 private:
  struct Ratio {
    double dividend;
    double divisor;
  };

  static std::int64_t planes_of(const Shape& shape) { return shape.batch * shape.channels; }
  static T sigmoid(T x) { return T{1} / (T{1} + std::exp(-x)); }

  void sum_up(const Arguments& call, Ratio* saved) const {
    const auto* logits = static_cast<const T*>(call.inputs[0]);
    const auto* targets = static_cast<const T*>(call.inputs[1]);
    LossSums loss_sums{.weight = static_cast<double>(planes_)};
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      double common = 0;
      double total = 0;
      for (std::int64_t i = plane * positions_; i < (plane + 1) * positions_; ++i) {
        const auto p = static_cast<double>(sigmoid(logits[i]));
        const auto t = static_cast<double>(targets[i]);
        common += p * t;
        total += p + t;
      }
      const Ratio ratio{2 * common + epsilon_, total + epsilon_};
      loss_sums.loss += 1 - ratio.dividend / ratio.divisor;
      if (saved != nullptr) saved[plane] = ratio;
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  double epsilon_;
  std::int64_t planes_;
  std::int64_t positions_;
};

}  // namespace

KernelPtr make(const Dice& loss, Formats in) { return make_for<DiceKernel>(in, loss); }

}  // namespace lockstep::ops::reference
