// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"
#include "ops/block_sums.hpp"

namespace lockstep::ops {

/// Returns Σ x² in double. The bits are the same on any number of threads.
/// @throws Error{unsupported} unless the values are float32 or float64
double sum_of_squares(const ConstBuffer& values, BlockSums& sums, const OnTeam& on_team);

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_average(const AverageStep& step);
/// Updates part `part` of `parts`. @pre `check_average` was called
void average_part(const AverageStep& step, int part, int parts);

}  // namespace lockstep::ops
