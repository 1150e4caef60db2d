// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"
#include "ops/formulas/functions.hpp"

/// Loops that several kernels use.
namespace lockstep::ops::reference {

/// Sums `term(i)` for i < count in double, as several partial sums, so that the loop is vectorized.
template <typename Term>
double sum_of(std::int64_t count, const Term& term) {
  constexpr std::int64_t lanes = 8;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += term(i + lane);
  }
  double sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (const double each : sums) sum += each;
  return sum;
}

template <typename T>
double sum(const T* values, std::int64_t count) {
  return sum_of(count, [values](std::int64_t i) { return static_cast<double>(values[i]); });
}

template <typename T>
double dot(const T* a, const T* b, std::int64_t count) {
  return sum_of(count, [a, b](std::int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

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
