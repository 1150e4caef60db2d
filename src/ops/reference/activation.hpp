// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/ops/ops.hpp"
#include "ops/formulas/functions.hpp"

namespace lockstep::ops::reference {

/// Applies the activation in place. A NaN stays a NaN, so that a diverged loss is visible.
template <typename T>
void activate(Activation activation, T* values, std::int64_t count) {
  if (activation == Activation::none) return;
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] < T{0} ? T{0} : values[i];
  if (activation != Activation::relu6) return;
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] > T{6} ? T{6} : values[i];
}

/// Turns the gradient of the activation's output into that of its input, in place.
template <typename T>
void activate_backward(Activation activation, const T* output, T* gradient, std::int64_t count) {
  if (activation == Activation::none) return;
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = passes(activation, output[i]) ? gradient[i] : T{0};
}

}  // namespace lockstep::ops::reference
