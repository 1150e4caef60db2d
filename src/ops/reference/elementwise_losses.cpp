// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "ops/reference/losses.hpp"
#include "ops/reference/operators.hpp"
namespace lockstep::ops::reference {

/// A loss of predictions x, targets t of the same shape, and optional weights. `At<T>` defines it for one element:
/// `loss(x, t)`, its derivatives `by_prediction(x, t)` and `by_target(x, t)`, and `right(x, t)` if `judges`.
template <typename T, template <typename> typename At>
class ElementwiseLoss final : public Kernel {
 public:
  template <typename Kind>
  ElementwiseLoss(std::span<const Format> in, const Kind& loss)
      : Kernel(loss_traits(in)), at_(loss), count_(in[0].shape.count()) {}

  void normalizer(const Arguments& call) override {
    static_cast<LossSums*>(call.output)->weight = total_weight<T>(call, count_);
  }

  void forward(const Arguments& call) override {
    LossSums loss_sums;
    loss_sums.weight = total_weight<T>(call, count_);
    loss_sums.loss = sum(call, [this](T x, T t) { return at_.loss(x, t); });
    if constexpr (At<T>::judges) {
      loss_sums.correct = sum(call, [this](T x, T t) { return static_cast<T>(at_.right(x, t)); });
    }
    *static_cast<LossSums*>(call.output) = loss_sums;
  }

  void backward(const Arguments& call) override {
    const auto factor = static_cast<T>(factor_of(call));
    const T* weights = weights_of<T>(call);
    each(call, 0, weights, factor, [this](T x, T t) { return at_.by_prediction(x, t); });
    each(call, 1, weights, factor, [this](T x, T t) { return at_.by_target(x, t); });
    if (weights != nullptr) each(call, 2, nullptr, factor, [this](T x, T t) { return at_.loss(x, t); });
  }

 private:
  /// Returns Σ weight · f(x, t).
  template <typename F>
  double sum(const Arguments& call, const F& f) const {
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* t = static_cast<const T*>(call.inputs[1]);
    const T* weights = weights_of<T>(call);
    if (weights == nullptr) return sum_of(count_, [=](std::int64_t i) { return f(x[i], t[i]); });
    return sum_of(count_, [=](std::int64_t i) { return scaled(weights[i], f(x[i], t[i])); });
  }

  /// Writes an input's gradient: factor · weight · f(x, t).
  template <typename F>
  void each(const Arguments& call, std::size_t input, const T* weights, T factor, const F& f) const {
    T* gradient = static_cast<T*>(call.input_gradients[input]);
    if (gradient == nullptr) return;
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* t = static_cast<const T*>(call.inputs[1]);
    if (weights == nullptr) {
      for (std::int64_t i = 0; i < count_; ++i) gradient[i] = scaled(factor, f(x[i], t[i]));
    } else {
      for (std::int64_t i = 0; i < count_; ++i) gradient[i] = scaled(factor * weights[i], f(x[i], t[i]));
    }
  }

  At<T> at_;
  std::int64_t count_;
};

namespace {

template <typename T>
struct SmoothL1At {
  static constexpr bool judges = false;
  T beta;
  T slope;  ///< slope of the gradient in the parabola; 0 if beta is 0

  explicit SmoothL1At(const SmoothL1& loss)
      : beta(static_cast<T>(loss.beta)), slope(static_cast<T>(loss.beta > 0 ? 1 / loss.beta : 0)) {}

  [[nodiscard]] T loss(T x, T t) const {
    const T half = static_cast<T>(0.5);
    const T distance = std::abs(x - t);
    return distance < beta ? half * slope * distance * distance : distance - half * beta;
  }
  /// Without a parabola the derivative at a difference of 0 is 0, too. A NaN stays a NaN.
  [[nodiscard]] T by_prediction(T x, T t) const {
    const T difference = x - t;
    if (difference >= beta && difference > T{0}) return T{1};
    if (difference <= -beta && difference < T{0}) return T{-1};
    return difference * slope;
  }
  [[nodiscard]] T by_target(T x, T t) const { return -by_prediction(x, t); }
};

template <typename T>
using SmoothL1Kernel = ElementwiseLoss<T, SmoothL1At>;

}  // namespace

std::unique_ptr<Kernel> make(const SmoothL1& loss, std::span<const Format> in) {
  return make_loss_for<SmoothL1Kernel>(in, loss);
}

namespace {

/// Returns log(1 + e) for e in [0, 1] as 2·artanh(e ÷ (2 + e)), whose series has terms that shrink by a factor of at
/// least 9. Unlike the library's function, it can be vectorized.
template <typename T>
T log_of_one_and(T e) {
  constexpr int terms = sizeof(T) == sizeof(float) ? 8 : 17;
  const T ratio = e / (T{2} + e);
  const T square = ratio * ratio;
  T sum = 0;
  for (int k = terms - 1; k >= 0; --k) sum = sum * square + T{1} / static_cast<T>(2 * k + 1);
  return T{2} * ratio * sum;
}

/// The loss is p·t·softplus(−x) + (1 − t)·softplus(x), where softplus(x) = log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|),
/// in which no exponential overflows.
template <typename T>
struct BinaryCrossEntropyAt {
  static constexpr bool judges = true;
  T positive_weight;

  explicit BinaryCrossEntropyAt(const BinaryCrossEntropy& loss)
      : positive_weight(static_cast<T>(loss.positive_weight)) {}

  [[nodiscard]] T loss(T x, T t) const {
    const T tail = log_of_one_and(std::exp(-std::abs(x)));
    return positive_weight * t * (std::max(-x, T{0}) + tail) + (T{1} - t) * (std::max(x, T{0}) + tail);
  }
  [[nodiscard]] T by_prediction(T x, T t) const {
    const T exponential = std::exp(-std::abs(x));
    const T larger = T{1} / (T{1} + exponential);
    const T smaller = exponential * larger;
    const T positive = x > T{0} ? larger : smaller;
    const T negative = x > T{0} ? smaller : larger;
    return (T{1} - t) * positive - positive_weight * t * negative;
  }
  [[nodiscard]] T by_target(T x, T /*t*/) const {
    const T tail = log_of_one_and(std::exp(-std::abs(x)));
    return positive_weight * (std::max(-x, T{0}) + tail) - (std::max(x, T{0}) + tail);
  }
  [[nodiscard]] bool right(T x, T t) const { return (x > T{0}) == (t > static_cast<T>(0.5)); }
};

template <typename T>
using BinaryCrossEntropyKernel = ElementwiseLoss<T, BinaryCrossEntropyAt>;

}  // namespace

std::unique_ptr<Kernel> make(const BinaryCrossEntropy& loss, std::span<const Format> in) {
  return make_loss_for<BinaryCrossEntropyKernel>(in, loss);
}

}  // namespace lockstep::ops::reference
