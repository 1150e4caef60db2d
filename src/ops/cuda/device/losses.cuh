// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <span>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/cuda/device/launch.cuh"

/// Helpers that several losses use.
namespace lockstep::ops::cuda {

/// The sums of a loss as kernels add them, and where the first bad value is.
struct LossTerms {
  double weight;
  double loss;
  double correct;
  std::int64_t from_end;  ///< of the first bad value: the number of values minus its index; 0: there is none

  friend __device__ LossTerms operator+(const LossTerms& a, const LossTerms& b) {
    return {a.weight + b.weight, a.loss + b.loss, a.correct + b.correct,
            a.from_end > b.from_end ? a.from_end : b.from_end};
  }
  [[nodiscard]] __device__ LossSums sums() const { return {weight, loss, correct}; }
  /// Writes the sums, or the weight alone and leaves the others as they are.
  __device__ void write(LossSums* to, bool only_weight) const {
    if (only_weight) {
      to->weight = weight;
    } else {
      *to = sums();
    }
  }
};

/// The traits of a loss that reads its inputs again in backward.
inline Traits loss_traits(Formats in, Bytes workspace, Bytes saved = {}) {
  return {.inputs = {in.begin(), in.end()},
          .output = Format::plain({1, 3, 1, 1}, DType::float64),
          .saved = saved,
          .workspace = workspace,
          .backward_reads_output = false};
}

/// A value with scale zero contributes zero, even if it is a NaN.
template <typename T>
__device__ T scaled(T scale, T value) {
  return scale == T{0} ? T{0} : scale * value;
}

struct LibraryLog {
  static __device__ float one_and(float e) { return std::log1p(e); }
};

/// Writes the sums of a loss that has no bad values.
struct WriteSums {
  LossSums* to;
  __device__ void operator()(std::int64_t /*column*/, const LossTerms& terms) const { *to = terms.sums(); }
};

/// Submits the normalizer of a loss whose weight is known on the host.
inline void write_weight(const Arguments& call, double weight) {
  auto* to = static_cast<LossSums*>(call.output);
  for_each(
      1, [=] __device__(std::int64_t /*i*/) { to->weight = weight; }, call.queue);
}

/// The bytes of workspace that sums over so many terms need.
inline Bytes loss_workspace(std::int64_t count) {
  return {RowParts(count, 1).partials() * static_cast<std::int64_t>(sizeof(LossTerms))};
}

/// Submits the normalizer of a loss with `count` terms, which have weights if there is a third input.
/// @throws Error{invalid_argument} if these weights come out of the network and are therefore not there yet
inline void sum_weights(const Arguments& call, std::int64_t count) {
  if (call.inputs.size() < 3) return write_weight(call, static_cast<double>(count));
  const auto* weights = static_cast<const float*>(call.inputs[2]);
  if (weights == nullptr && count > 0)
    throw Error(
        ErrorCode::invalid_argument,
        "the weights of a loss cannot come from the network, because its normalizer is computed first: give them as "
        "an input");
  auto* to = static_cast<LossSums*>(call.output);
  sum_rows<double>(
      count, 1, [=] __device__(std::int64_t i, std::int64_t /*column*/) { return static_cast<double>(weights[i]); },
      [=] __device__(std::int64_t /*column*/, double weight) { to->weight = weight; }, call.workspace, call.queue);
}

/// The factor of all gradients of a call, in device memory.
inline const double* factor_of(const Arguments& call) { return static_cast<const double*>(call.output_gradient); }

}  // namespace lockstep::ops::cuda
