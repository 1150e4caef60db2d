// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature BatchNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "batch norm");
  require(epsilon > 0, "epsilon is " + std::to_string(epsilon) + "; it must be positive");
  require(momentum >= 0 && momentum <= 1, "momentum is " + std::to_string(momentum) + "; it must lie between 0 and 1");
  const Shape& in = inputs[0];
  const std::vector<std::int64_t> channels{in.channels};
  // Forward: two sums, then scaled and shifted. Backward: two sums, then three terms.
  return {
      .output = in,
      .parameters = {{.name = "weight", .shape = channels, .value = 1}, {.name = "bias", .shape = channels}},
      .state = {{.name = "running_mean", .shape = channels}, {.name = "running_var", .shape = channels, .value = 1}},
      .forward = with_activation({6 * in.count(), 2 * in.count()}, activation, in.count(), false),
      .backward = with_activation({10 * in.count(), 3 * in.count()}, activation, in.count(), true)};
}

std::string BatchNorm::text() const {
  return std::string(synchronised ? "synchronised " : "") + "batch norm" + ops::text(activation);
}

}  // namespace lockstep::ops
