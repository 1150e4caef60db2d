// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Giou::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, 1, "GIoU");
  require(inputs[0].channels == 4, "boxes of " + ops::text(inputs[0]) + " have " + std::to_string(inputs[0].channels) +
                                       " channels; there must be 4: x1, y1, x2, y2");
  require(epsilon > 0 && std::isfinite(epsilon),
          "epsilon is " + std::to_string(epsilon) + "; it must be finite and positive");
  // A box has four elements and costs about 32 operations.
  return loss_of(inputs, 8);
}

std::string Giou::text() const { return "GIoU"; }

}  // namespace lockstep::ops
