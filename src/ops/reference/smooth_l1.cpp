// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/reference/elementwise_loss.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {

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

}  // namespace lockstep::ops::reference
