// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/reference/elementwise_loss.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {

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
