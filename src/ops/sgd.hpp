// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_sgd(const SgdStep& step);

/// One SGD step in the element type's own precision, on every processor with the same bits. @pre it was checked
void sgd_step(const SgdStep& step);

/// The step of part `part` of `parts` of about equal size, which begin at cache lines if the tensors do.
SgdStep part_of(const SgdStep& step, int part, int parts);

}  // namespace lockstep::ops
