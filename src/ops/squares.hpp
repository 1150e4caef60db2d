// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/limits.hpp"

namespace lockstep::ops {

/// Computes Σ x² in double, over blocks of fixed length whose sums are added pairwise. The bits are the same on any
/// number of threads.
class SumOfSquares {
 public:
  /// @throws Error{unsupported} unless the values are float32 or float64
  double operator()(const ConstBuffer& values, const OnTeam& on_team);

 private:
  std::vector<double> blocks_;  // kept, so that a call allocates only for more values than before
};

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_average(const AverageStep& step);
/// Updates part `part` of `parts`. @pre `check_average` was called
void average_part(const AverageStep& step, int part, int parts);

}  // namespace lockstep::ops
