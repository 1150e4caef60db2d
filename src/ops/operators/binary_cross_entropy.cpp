// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/operators/losses.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature BinaryCrossEntropy::signature(std::span<const Shape> inputs) const {
  require_targets(inputs, inputs.empty() ? 0 : inputs[0].channels, "binary cross-entropy");
  require(positive_weight >= 0 && std::isfinite(positive_weight),
          "positive_weight is " + std::to_string(positive_weight) + "; it must be finite, and at least 0");
  // An element costs an exponential, a logarithm, two ramps, and five operations to combine them.
  return loss_of(inputs, 10);
}

std::string BinaryCrossEntropy::text() const { return "binary cross-entropy"; }

}  // namespace lockstep::ops
