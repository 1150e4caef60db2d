// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

namespace {

/// Forward makes two sums, then scales and shifts. Backward makes two sums for the parameters and two for the input,
/// then three terms.
Signature normalized(const Shape& in, const std::vector<std::int64_t>& affine) {
  const OwnedTensor weight{.name = "weight", .shape = affine, .value = 1};
  return {.output = in,
          .parameters = {weight, {.name = "bias", .shape = affine}},
          .forward = {6 * in.count(), 2 * in.count() + 2 * weight.count()},
          .backward = {12 * in.count(), 3 * in.count() + 3 * weight.count()}};
}

void require_positive_epsilon(double epsilon) {
  require(epsilon > 0, "epsilon is " + std::to_string(epsilon) + "; it must be positive");
}

}  // namespace

Signature LayerNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "layer norm");
  require_positive_epsilon(epsilon);
  const Shape& in = inputs[0];
  if (axes == Axes::channels) return normalized(in, {in.channels});
  return normalized(in, {in.channels, in.height, in.width});
}

std::string LayerNorm::text() const {
  return axes == Axes::channels ? "layer norm over channels" : "layer norm over a sample";
}

Signature GroupNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "group norm");
  require_positive_epsilon(epsilon);
  require_at_least(groups, 1, "groups");
  const Shape& in = inputs[0];
  require(in.channels % groups == 0,
          "groups is " + std::to_string(groups) + "; it must divide the channels of " + ops::text(in) + " evenly");
  return normalized(in, {in.channels});
}

std::string GroupNorm::text() const {
  return "group norm, " + std::to_string(groups) + (groups == 1 ? " group" : " groups");
}

}  // namespace lockstep::ops
