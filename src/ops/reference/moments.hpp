// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/reference/sums.hpp"

namespace lockstep::ops::reference {

/// What values are normalised by, in double: saved for backward as it is.
struct Moments {
  double mean;
  double inverse_deviation;
};

/// In two passes, the second over differences from the mean, so that nothing cancels.
template <typename T>
Moments moments_of(const T* values, std::int64_t count, double epsilon) {
  const double mean = sum(values, count) / static_cast<double>(count);
  const double squares = sum_of(count, [values, mean](std::int64_t i) {
    const double difference = static_cast<double>(values[i]) - mean;
    return difference * difference;
  });
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + epsilon)};
}

}  // namespace lockstep::ops::reference
