// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>

#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/step.hpp"

/// Elementwise functions in float32, as the reference has them. A NaN stays a NaN, so that a diverged loss is visible.
namespace lockstep::ops::cuda {

LOCKSTEP_HOST_DEVICE inline float activated(Activation activation, float x) {
  if (activation == Activation::none) return x;
  const float positive = x < 0 ? 0 : x;
  return activation == Activation::relu6 && positive > 6 ? 6 : positive;
}

/// Whether the gradient passes the activation. The value may be its input or its output.
LOCKSTEP_HOST_DEVICE inline bool passes(Activation activation, float value) {
  return activation == Activation::none || (value > 0 && !(activation == Activation::relu6 && value >= 6));
}

// Each function has its value and its derivative. The derivative takes the result if `by_output`, otherwise the
// argument.

struct Relu6Function {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return activated(Activation::relu6, x); }
  LOCKSTEP_HOST_DEVICE float derivative(float y) const { return passes(Activation::relu6, y) ? 1 : 0; }
};

struct LeakyReluFunction {
  static constexpr bool by_output = true;  // the result has the argument's sign, because the slope is not negative
  float slope;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return x > 0 ? x : slope * x; }
  LOCKSTEP_HOST_DEVICE float derivative(float y) const { return y > 0 ? 1 : slope; }
};

struct SigmoidFunction {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return 1 / (1 + std::exp(-x)); }
  LOCKSTEP_HOST_DEVICE float derivative(float y) const { return y * (1 - y); }
};

struct TanhFunction {
  static constexpr bool by_output = true;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return std::tanh(x); }
  LOCKSTEP_HOST_DEVICE float derivative(float y) const { return 1 - y * y; }
};

struct SiluFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return x / (1 + std::exp(-x)); }
  LOCKSTEP_HOST_DEVICE float derivative(float x) const {
    const float s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
};

struct HardSwishFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return x * activated(Activation::relu6, x + 3) / 6; }
  LOCKSTEP_HOST_DEVICE float derivative(float x) const { return x <= -3 ? 0 : (x < 3 ? x / 3 + 0.5F : 1); }
};

struct GeluFunction {
  static constexpr bool by_output = false;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return x * distribution(x); }
  LOCKSTEP_HOST_DEVICE float derivative(float x) const {
    constexpr float density_at_zero = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
    return distribution(x) + x * density_at_zero * std::exp(x * x / -2);
  }
  LOCKSTEP_HOST_DEVICE static float distribution(float x) {
    constexpr float root = std::numbers::sqrt2_v<float>;
    return 0.5F * (1 + std::erf(x / root));
  }
};

struct GeluTanhFunction {
  static constexpr bool by_output = false;
  static constexpr float cubic = 0.044715F;
  LOCKSTEP_HOST_DEVICE float value(float x) const { return 0.5F * x * (1 + tanh_of(x)); }
  LOCKSTEP_HOST_DEVICE float derivative(float x) const {
    const float t = tanh_of(x);
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * (scale() * (1 + 3 * cubic * x * x));
  }
  LOCKSTEP_HOST_DEVICE static float tanh_of(float x) { return std::tanh(scale() * (x + cubic * x * x * x)); }
  LOCKSTEP_HOST_DEVICE static float scale() {
    constexpr float scale = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
    return scale;
  }
};

/// Calls `f` with the function.
template <typename F>
auto with_function(const Pointwise& op, const F& f) {
  using enum Pointwise::Kind;
  switch (op.kind) {
    case relu6: return f(Relu6Function{});
    case leaky_relu: return f(LeakyReluFunction{static_cast<float>(op.slope)});
    case silu: return f(SiluFunction{});
    case hard_swish: return f(HardSwishFunction{});
    case sigmoid: return f(SigmoidFunction{});
    case tanh: return f(TanhFunction{});
    case gelu: return f(GeluFunction{});
    case gelu_tanh: break;
  }
  return f(GeluTanhFunction{});
}

}  // namespace lockstep::ops::cuda
