// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"
#include "ops/block_sums.hpp"

namespace lockstep::ops {

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_update(const UpdateStep& step);

/// Makes one update in the element type's own precision; the bits are the same on every processor. @pre `check_update`
/// was called
void make_update(const UpdateStep& step);

/// Does what `Ops::measure_update` says. The bits are the same on any number of threads. @pre `check_update` was called
void measure_update(const UpdateStep& step, BlockSums& sums, const OnTeam& on_team);

/// Returns part `part` of `parts` of the step. The parts have about equal sizes and begin at cache lines if the tensors
/// do.
UpdateStep part_of(const UpdateStep& step, int part, int parts);

}  // namespace lockstep::ops
