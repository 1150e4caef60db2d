// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>

#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/step.hpp"

/// Functions of single elements, the same source on every device, for T = float or double. A NaN stays a NaN, so that a
/// diverged loss is visible.
namespace lockstep::ops {

template <typename T>
LOCKSTEP_HOST_DEVICE T activated(Activation activation, T x) {
  if (activation == Activation::none) return x;
  const T positive = x < T{0} ? T{0} : x;
  return activation == Activation::relu6 && positive > T{6} ? T{6} : positive;
}

/// Whether the gradient passes the activation. The value may be its input or its output.
template <typename T>
LOCKSTEP_HOST_DEVICE bool passes(Activation activation, T value) {
  return activation == Activation::none || (value > T{0} && !(activation == Activation::relu6 && value >= T{6}));
}

// Each function has its value and its derivative. The derivative takes the result if `by_output`, otherwise the
// argument.

template <typename T>
struct Relu6Function {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return activated(Activation::relu6, x); }
  LOCKSTEP_HOST_DEVICE T derivative(T y) const { return passes(Activation::relu6, y) ? T{1} : T{0}; }
};

template <typename T>
struct LeakyReluFunction {
  static constexpr bool by_output = true;  // the result has the argument's sign, because the slope is not negative
  T slope;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return x > T{0} ? x : slope * x; }
  LOCKSTEP_HOST_DEVICE T derivative(T y) const { return y > T{0} ? T{1} : slope; }
};

template <typename T>
struct SigmoidFunction {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return T{1} / (T{1} + std::exp(-x)); }
  LOCKSTEP_HOST_DEVICE T derivative(T y) const { return y * (T{1} - y); }
};

template <typename T>
struct TanhFunction {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return std::tanh(x); }
  LOCKSTEP_HOST_DEVICE T derivative(T y) const { return T{1} - y * y; }
};

template <typename T>
struct SiluFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return x / (T{1} + std::exp(-x)); }
  LOCKSTEP_HOST_DEVICE T derivative(T x) const {
    const T s = T{1} / (T{1} + std::exp(-x));
    return s * (T{1} + x * (T{1} - s));
  }
};

template <typename T>
struct HardSwishFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return x * activated(Activation::relu6, x + T{3}) / T{6}; }
  LOCKSTEP_HOST_DEVICE T derivative(T x) const { return x <= T{-3} ? T{0} : (x < T{3} ? x / T{3} + T{0.5} : T{1}); }
};

template <typename T>
struct GeluFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return x * distribution(x); }
  LOCKSTEP_HOST_DEVICE T derivative(T x) const {
    constexpr T density_at_zero = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
    return distribution(x) + x * density_at_zero * std::exp(x * x / T{-2});
  }
  LOCKSTEP_HOST_DEVICE static T distribution(T x) {
    constexpr T root = std::numbers::sqrt2_v<T>;
    return T{0.5} * (T{1} + std::erf(x / root));
  }
};

template <typename T>
struct GeluTanhFunction {
  static constexpr bool by_output = false;
  static constexpr T cubic = static_cast<T>(0.044715);
  static constexpr T scale = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return T{0.5} * x * (T{1} + tanh_of(x)); }
  LOCKSTEP_HOST_DEVICE T derivative(T x) const {
    const T t = tanh_of(x);
    const T inner = scale * (T{1} + 3 * cubic * x * x);
    return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * inner;
  }
  LOCKSTEP_HOST_DEVICE static T tanh_of(T x) { return std::tanh(scale * (x + cubic * x * x * x)); }
};

template <typename T>
struct AffineFunction {
  static constexpr bool by_output = true;  // it needs neither
  T slope;
  T offset;
  LOCKSTEP_HOST_DEVICE T value(T x) const { return slope * x + offset; }
  LOCKSTEP_HOST_DEVICE T derivative(T /*y*/) const { return slope; }
};

template <typename T>
struct HardSigmoidFunction {
  static constexpr bool by_output = true;
  T slope;
  T offset;
  LOCKSTEP_HOST_DEVICE T value(T x) const {
    const T line = slope * x + offset;
    return line < T{0} ? T{0} : (line > T{1} ? T{1} : line);
  }
  LOCKSTEP_HOST_DEVICE T derivative(T y) const { return y > T{0} && y < T{1} ? slope : T{0}; }
};

/// Calls `f` with the function, once instead of for each element.
template <typename T, typename F>
auto with_function(const Pointwise& op, const F& f) {
  using enum Pointwise::Kind;
  switch (op.kind) {
    case relu6: return f(Relu6Function<T>{});
    case leaky_relu: return f(LeakyReluFunction<T>{static_cast<T>(op.slope)});
    case silu: return f(SiluFunction<T>{});
    case hard_swish: return f(HardSwishFunction<T>{});
    case sigmoid: return f(SigmoidFunction<T>{});
    case tanh: return f(TanhFunction<T>{});
    case gelu: return f(GeluFunction<T>{});
    case affine: return f(AffineFunction<T>{static_cast<T>(op.slope), static_cast<T>(op.offset)});
    case hard_sigmoid: return f(HardSigmoidFunction<T>{static_cast<T>(op.slope), static_cast<T>(op.offset)});
    case gelu_tanh: break;
  }
  return f(GeluTanhFunction<T>{});
}

// Each loss of a prediction x and a target t has its value and its derivatives. `judges` tells whether `right` says if
// the prediction is right.

template <typename T>
struct SmoothL1At {
  static constexpr bool judges = false;
  T beta;
  T slope;  ///< slope of the gradient in the parabola; 0 if beta is 0

  explicit SmoothL1At(const SmoothL1& loss)
      : beta(static_cast<T>(loss.beta)), slope(static_cast<T>(loss.beta > 0 ? 1 / loss.beta : 0)) {}

  [[nodiscard]] LOCKSTEP_HOST_DEVICE T loss(T x, T t) const {
    const T distance = std::abs(x - t);
    return distance < beta ? T{0.5} * slope * distance * distance : distance - T{0.5} * beta;
  }
  /// Without a parabola the derivative at a difference of 0 is 0, too.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE T by_prediction(T x, T t) const {
    const T difference = x - t;
    if (difference >= beta && difference > T{0}) return T{1};
    if (difference <= -beta && difference < T{0}) return T{-1};
    return difference * slope;
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE T by_target(T x, T t) const { return -by_prediction(x, t); }
};

/// The loss is p·t·softplus(−x) + (1 − t)·softplus(x), where softplus(x) = log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|),
/// in which no exponential overflows.
/// @tparam Log  has `one_and(e)`, which returns log(1 + e) for e in [0, 1]
template <typename T, typename Log>
struct BinaryCrossEntropyAt {
  static constexpr bool judges = true;
  T positive_weight;

  explicit BinaryCrossEntropyAt(const BinaryCrossEntropy& loss)
      : positive_weight(static_cast<T>(loss.positive_weight)) {}

  [[nodiscard]] LOCKSTEP_HOST_DEVICE static T positive(T x) { return x < T{0} ? T{0} : x; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE T loss(T x, T t) const {
    const T tail = Log::one_and(std::exp(-std::abs(x)));
    return positive_weight * t * (positive(-x) + tail) + (T{1} - t) * (positive(x) + tail);
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE T by_prediction(T x, T t) const {
    const T exponential = std::exp(-std::abs(x));
    const T larger = T{1} / (T{1} + exponential);
    const T smaller = exponential * larger;
    return (T{1} - t) * (x > T{0} ? larger : smaller) - positive_weight * t * (x > T{0} ? smaller : larger);
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE T by_target(T x, T /*t*/) const {
    const T tail = Log::one_and(std::exp(-std::abs(x)));
    return positive_weight * (positive(-x) + tail) - (positive(x) + tail);
  }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE bool right(T x, T t) const { return (x > T{0}) == (t > T{0.5}); }
};

}  // namespace lockstep::ops
