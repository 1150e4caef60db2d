// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/reference/sums.hpp"

/// Helpers for the kernels of losses.
namespace lockstep::ops::reference {

/// Returns the traits of a loss that reads its inputs again in backward.
inline Traits loss_traits(std::span<const Format> in, Bytes saved = {}) {
  return {.inputs = {in.begin(), in.end()},
          .output = Format::plain({1, 3, 1, 1}, DType::float64),
          .saved = saved,
          .backward_reads_output = false};
}

/// Like `make_for`, for kernels whose constructors take all inputs.
template <template <typename> typename Implementation, typename Kind>
std::unique_ptr<Kernel> make_loss_for(std::span<const Format> in, const Kind& loss) {
  if (in[0].dtype == DType::float32) return std::make_unique<Implementation<float>>(in, loss);
  return std::make_unique<Implementation<double>>(in, loss);
}

/// A value with scale zero contributes zero, even if it is a NaN.
template <typename T>
T scaled(T scale, T value) {
  return scale == T{0} ? T{0} : scale * value;
}

/// Returns the factor of all gradients of a call.
inline double factor_of(const Arguments& call) { return *static_cast<const double*>(call.output_gradient); }

/// Returns the third input, or null if there is none.
template <typename T>
const T* weights_of(const Arguments& call) {
  return call.inputs.size() < 3 ? nullptr : static_cast<const T*>(call.inputs[2]);
}

/// Returns the sum of the weights, or their number if there is no input of weights.
template <typename T>
double total_weight(const Arguments& call, std::int64_t count) {
  if (call.inputs.size() < 3) return static_cast<double>(count);
  const T* weights = weights_of<T>(call);
  if (weights == nullptr && count > 0) {
    throw Error(ErrorCode::invalid_argument,
                "what a loss is normalized by cannot come out of the network; give its weights as an input");
  }
  return sum_of(count, [=](std::int64_t i) { return weights[i]; });
}

}  // namespace lockstep::ops::reference
