// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

/// Any operator on a batch of no samples, for which oneDNN's primitives would leave the gradients unwritten: forward
/// does nothing, parameter gradients are zero, running statistics stay.
/// @param parameter_counts  elements of each parameter
std::unique_ptr<Operator> make_empty_batch(const Shape& out, const Arity& arity,
                                           std::vector<std::int64_t> parameter_counts);

}  // namespace lockstep::ops::onednn
