// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_sgd(const SgdStep& step);

/// Makes one SGD step in the element type's own precision; the bits are the same on every processor. @pre `check_sgd`
/// was called
void sgd_step(const SgdStep& step);

/// Returns part `part` of `parts` of the step. The parts have about equal sizes and begin at cache lines if the tensors
/// do.
SgdStep part_of(const SgdStep& step, int part, int parts);

}  // namespace lockstep::ops
