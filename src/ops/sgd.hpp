// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// One SGD step in the element type's own precision.
/// @throws Error{unsupported} unless the dtype is float32 or float64
void sgd_step(const SgdStep& step);

}  // namespace lockstep::ops
