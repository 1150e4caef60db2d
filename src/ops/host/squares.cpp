// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kernels/vectorized.hpp"
#include "lockstep/base/error.hpp"
#include "ops/host/host_ops.hpp"

namespace lockstep::ops {
namespace {

void require_real(DType dtype, const char* what) {
  if (dtype == DType::float32 || dtype == DType::float64) return;
  throw Error(ErrorCode::unsupported,
              std::string(what) + " of " + std::string(name(dtype)) + " values; use float32 or float64");
}

/// Keeps eight partial sums, so that vectors of any width add in the same order.
template <typename T>
LOCKSTEP_INLINE double squares(const T* values, std::int64_t count) {
  constexpr std::int64_t lanes = 8;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto x = static_cast<double>(values[i + lane]);
      sums[lane] += x * x;
    }
  }
  for (; i < count; ++i) sums[i % lanes] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

LOCKSTEP_VECTORISED double squares_float32(const float* values, std::int64_t count) { return squares(values, count); }
LOCKSTEP_VECTORISED double squares_float64(const double* values, std::int64_t count) { return squares(values, count); }

template <typename T>
LOCKSTEP_INLINE void average(T* __restrict averages, const T* __restrict values, std::int64_t count, double decay) {
  const T keep = static_cast<T>(decay);
  const T take = static_cast<T>(1 - decay);
  for (std::int64_t i = 0; i < count; ++i) averages[i] = keep * averages[i] + take * values[i];
}

LOCKSTEP_VECTORISED void average_float32(float* averages, const float* values, std::int64_t count, double decay) {
  average(averages, values, count, decay);
}
LOCKSTEP_VECTORISED void average_float64(double* averages, const double* values, std::int64_t count, double decay) {
  average(averages, values, count, decay);
}

}  // namespace

double sum_of_squares(const ConstBuffer& values, BlockSums& sums, const OnTeam& on_team) {
  require_real(values.dtype, "squares");
  return sums(values.count, on_team, [&](std::int64_t begin, std::int64_t count) {
    return values.dtype == DType::float32 ? squares_float32(static_cast<const float*>(values.data) + begin, count)
                                          : squares_float64(static_cast<const double*>(values.data) + begin, count);
  });
}

void check_average(const AverageStep& step) { require_real(step.dtype, "averages"); }

void average_part(const AverageStep& step, int part, int parts) {
  if (!step.scalars->go) return;
  const std::int64_t begin = step.count.value * part / parts;
  const std::int64_t count = step.count.value * (part + 1) / parts - begin;
  if (step.dtype == DType::float32) {
    average_float32(static_cast<float*>(step.averages) + begin, static_cast<const float*>(step.values) + begin, count,
                    step.decay);
  } else {
    average_float64(static_cast<double*>(step.averages) + begin, static_cast<const double*>(step.values) + begin, count,
                    step.decay);
  }
}

}  // namespace lockstep::ops
