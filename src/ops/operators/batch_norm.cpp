// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature BatchNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, residual ? 2 : 1, residual ? "batch norm with a residual" : "batch norm");
  require(epsilon > 0, "epsilon is " + std::to_string(epsilon) + "; it must be positive");
  require(momentum >= 0 && momentum <= 1, "momentum is " + std::to_string(momentum) + "; it must lie between 0 and 1");
  const Shape& in = inputs[0];
  if (residual) require(in == inputs[1], "cannot add activations of " + ops::text(in) + " and " + ops::text(inputs[1]));
  const std::vector<std::int64_t> channels{in.channels};
  const std::int64_t sum = residual ? in.count() : 0;
  // Forward makes two sums, then scales and shifts. Backward makes two sums, then three terms. Without a residual,
  // backward finds the activation's sign from the input.
  return {
      .output = in,
      .parameters = {{.name = "weight", .shape = channels, .value = 1}, {.name = "bias", .shape = channels}},
      .state = {{.name = "running_mean", .shape = channels}, {.name = "running_var", .shape = channels, .value = 1}},
      .forward = with_activation({6 * in.count() + sum, 2 * in.count() + sum}, activation, in.count(), false),
      .backward = with_activation({10 * in.count(), 3 * in.count() + sum}, activation, in.count(), residual)};
}

std::string BatchNorm::text() const {
  return std::string(synchronized ? "synchronized " : "") + "batch norm" + (residual ? ", add" : "") +
         ops::text(activation);
}

}  // namespace lockstep::ops
