// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Dice::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "dice");
  require_targets(inputs, 1, "dice");
  require(epsilon > 0 && std::isfinite(epsilon),
          "epsilon is " + std::to_string(epsilon) + "; it must be finite and positive");
  // An element costs a sigmoid of three operations, a product, and three sums.
  return loss_of(inputs, 7);
}

std::string Dice::text() const { return "dice"; }

}  // namespace lockstep::ops
