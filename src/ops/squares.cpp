// SPDX-License-Identifier: Apache-2.0
#include "ops/squares.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include "kernels/vectorized.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ops {

namespace {

constexpr std::int64_t block_length = 4096;

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

double squares_of_block(const ConstBuffer& values, std::int64_t block) {
  const std::int64_t begin = block * block_length;
  const std::int64_t count = std::min(block_length, values.count.value - begin);
  return values.dtype == DType::float32 ? squares_float32(static_cast<const float*>(values.data) + begin, count)
                                        : squares_float64(static_cast<const double*>(values.data) + begin, count);
}

double pairwise(const double* values, std::size_t count) {
  if (count == 0) return 0;
  if (count == 1) return values[0];
  const std::size_t half = count / 2;
  return pairwise(values, half) + pairwise(values + half, count - half);
}

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

double SumOfSquares::operator()(const ConstBuffer& values, const OnTeam& on_team) {
  require_real(values.dtype, "squares");
  const std::int64_t blocks = (values.count.value + block_length - 1) / block_length;
  if (static_cast<std::int64_t>(blocks_.size()) < blocks) blocks_.resize(static_cast<std::size_t>(blocks));
  const auto add_some = [&](int member, int members) {
    for (std::int64_t block = blocks * member / members; block < blocks * (member + 1) / members; ++block)
      blocks_[static_cast<std::size_t>(block)] = squares_of_block(values, block);
  };
  on_team(std::ref(add_some));  // std::ref, because std::function holds it without allocating
  return pairwise(blocks_.data(), static_cast<std::size_t>(blocks));
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
