// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "kernels/vectorized.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/ops/step.hpp"

/// The formulas of optimizers, the same source on every device.
namespace lockstep::ops {

/// Returns the factor by which LARS and LAMB multiply the learning rate of a tensor.
LOCKSTEP_HOST_DEVICE inline double trust_ratio(const UpdateStep& step) {
  if (step.squares == nullptr) return 1;
  const double weights = std::sqrt(step.squares[0]);
  const double other = std::sqrt(step.squares[1]);
  if (weights == 0 || other == 0) return 1;
  if (step.rule == UpdateRule::lamb) return weights / other;
  return step.trust_coefficient * weights / (other * step.scalars->gradient_scale + step.weight_decay * weights);
}

/// Returns the learning rate of an update.
LOCKSTEP_HOST_DEVICE inline double rate_of(const UpdateStep& step) {
  return step.is_bias ? step.scalars->bias_learning_rate : step.scalars->learning_rate;
}

/// Returns the momentum of an update.
LOCKSTEP_HOST_DEVICE inline double momentum_of(const UpdateStep& step) {
  return step.scalars->momentum < 0 ? step.momentum : step.scalars->momentum;
}

/// Returns a moment of an optimizer, or zero where it is subnormal. A moment whose gradients are zero shrinks with each
/// update and would stay subnormal forever, since the least subnormal number times 0.9 is rounded to itself. Processors
/// compute with subnormal numbers slowly.
template <typename T>
LOCKSTEP_HOST_DEVICE LOCKSTEP_INLINE T normal_or_zero(T moment) {
  constexpr T least = std::numeric_limits<T>::min();
  return std::abs(moment) < least ? T{0} : moment;
}

/// The numbers of an update in the elements' type.
template <typename T>
struct UpdateFactors {
  T rate, scale, momentum, beta2, decay, epsilon;
  T of_first, of_second;  // what the first moment, and the root of the second, are multiplied by

  LOCKSTEP_HOST_DEVICE explicit UpdateFactors(const UpdateStep& step)
      : rate(static_cast<T>(rate_of(step))),
        scale(static_cast<T>(step.scalars->gradient_scale)),
        momentum(static_cast<T>(momentum_of(step))),
        beta2(static_cast<T>(step.beta2)),
        decay(static_cast<T>(step.weight_decay)),
        epsilon(static_cast<T>(step.epsilon)),
        of_first(static_cast<T>(1 / step.scalars->first_correction)),
        of_second(static_cast<T>(1 / std::sqrt(step.scalars->second_correction))) {}

  /// Returns m̂ ÷ (√v̂ + epsilon).
  LOCKSTEP_HOST_DEVICE LOCKSTEP_INLINE T direction(T first, T second) const {
    return first * of_first / (std::sqrt(second) * of_second + epsilon);
  }
  /// Overwrites both moments of an element. @return its direction
  LOCKSTEP_HOST_DEVICE LOCKSTEP_INLINE T moments(T gradient, T& first, T& second) const {
    const T g = gradient * scale;
    first = normal_or_zero(momentum * first + (T{1} - momentum) * g);
    second = normal_or_zero(beta2 * second + (T{1} - beta2) * g * g);
    return direction(first, second);
  }
};

}  // namespace lockstep::ops
