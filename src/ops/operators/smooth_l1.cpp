// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature SmoothL1::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, inputs.empty() ? 0 : inputs[0].channels, "smooth L1");
  require(beta >= 0 && std::isfinite(beta), "beta is " + std::to_string(beta) + "; it must be finite, and at least 0");
  // An element costs a difference, its absolute value, a comparison, two operations on either side of it, and a sum.
  return loss_of(inputs, 6);
}

std::string SmoothL1::text() const { return "smooth L1"; }

}  // namespace lockstep::ops
