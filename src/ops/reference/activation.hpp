// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::reference {

/// Applies it in place. A NaN stays a NaN, so that a loss that diverged is seen.
template <typename T>
void activate(Activation activation, T* values, std::int64_t count) {
  if (activation == Activation::none) return;
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] < T{0} ? T{0} : values[i];
  if (activation != Activation::relu6) return;
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] > T{6} ? T{6} : values[i];
}

/// Whether the gradient passes where this comes out of the activation, or went into it.
template <typename T>
bool passes(Activation activation, T value) {
  return value > T{0} && !(activation == Activation::relu6 && value >= T{6});
}

/// Turns the gradient behind the activation into the one before it, in place.
template <typename T>
void activate_backward(Activation activation, const T* output, T* gradient, std::int64_t count) {
  if (activation == Activation::none) return;
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = passes(activation, output[i]) ? gradient[i] : T{0};
}

}  // namespace lockstep::ops::reference
