// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// Plain loops in float32 or float64: what the other implementations are measured against.
/// Every sum is taken in one fixed order, so equal inputs give equal bits.
std::unique_ptr<Ops> make_reference_ops();

}  // namespace lockstep::ops
