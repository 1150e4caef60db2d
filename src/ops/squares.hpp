// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/limits.hpp"

namespace lockstep::ops {

/// Σ x², in double, over blocks of fixed length whose sums are added pairwise: the same bits on any number of threads.
class SumOfSquares {
 public:
  /// @throws Error{unsupported} unless the values are float32 or float64
  double operator()(const ConstBuffer& values, const OnTeam& on_team);

 private:
  std::vector<double> blocks_;  // kept, so that only longer values than ever before allocate
};

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_average(const AverageStep& step);
/// Part `part` of `parts`. @pre it was checked
void average_part(const AverageStep& step, int part, int parts);

}  // namespace lockstep::ops
