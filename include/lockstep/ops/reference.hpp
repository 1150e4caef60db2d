// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// Makes the reference library: plain loops in float32 or float64, against which the others are tested. Every sum has a
/// fixed order, so that equal inputs give equal bits.
std::unique_ptr<Ops> make_reference_ops();

}  // namespace lockstep::ops
