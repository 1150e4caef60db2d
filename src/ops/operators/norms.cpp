// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"
namespace lockstep::ops {

Signature BatchNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, residual ? 2 : 1, residual ? "batch norm with a residual" : "batch norm");
  require(epsilon > 0, "epsilon is " + std::to_string(epsilon) + "; it must be positive");
  require(momentum >= 0 && momentum <= 1, "momentum is " + std::to_string(momentum) + "; it must lie between 0 and 1");
  require(residual || !normalizes_residual, "there is no residual to normalize");
  require(!residual || !pool, "a batch norm with a residual has no max pool");
  const Shape& in = inputs[0];
  if (residual) require(in == inputs[1], "cannot add activations of " + ops::text(in) + " and " + ops::text(inputs[1]));
  const std::vector<std::int64_t> channels{in.channels};
  const std::int64_t sum = residual ? in.count() : 0;
  const std::int64_t normalized = norms() * in.count();
  // Forward makes two sums, then scales and shifts. Backward makes two sums, then three terms. Without a residual,
  // backward finds the activation's sign from the input.
  Signature signature{
      .output = in,
      .parameters = {{.name = "weight", .shape = channels, .value = 1}, {.name = "bias", .shape = channels}},
      .state = {{.name = "running_mean", .shape = channels}, {.name = "running_var", .shape = channels, .value = 1}},
      .forward = with_activation({6 * normalized + sum, 2 * in.count() + sum}, activation, in.count(), false),
      .backward = with_activation({10 * normalized, 3 * in.count() + norms() * sum}, activation, in.count(), residual)};
  if (pool) {
    const Signature pooled = pool->signature(inputs);
    require(can_fuse(*pool), "a batch norm has no " + pool->text());
    signature.output = pooled.output;
    signature.forward = signature.forward + OperatorCost{pooled.forward.flops, pooled.output.count() - in.count()};
    signature.backward = signature.backward + OperatorCost{pooled.backward.flops, pooled.output.count() - in.count()};
  }
  if (!normalizes_residual) return signature;
  for (std::vector<OwnedTensor>* tensors : {&signature.parameters, &signature.state}) {
    for (std::size_t i = 0; i < 2; ++i) {
      OwnedTensor second = (*tensors)[i];
      second.name = "residual_" + second.name;
      tensors->push_back(std::move(second));
    }
  }
  return signature;
}

std::string BatchNorm::text() const {
  const std::string added = normalizes_residual ? ", add batch norm" : ", add";
  return std::string(synchronized ? "synchronized " : "") + "batch norm" + (residual ? added : "") +
         ops::text(activation) + (pool ? ", " + pool->text() : "");
}

bool BatchNorm::can_fuse(const MaxPool& pool) {
  constexpr std::int64_t most_elements = 255;
  return pool.activation == Activation::none && pool.kernel.area() <= most_elements &&
         pool.kernel.height <= 2 * pool.stride.height && pool.kernel.width <= 2 * pool.stride.width;
}

Signature FrozenBatchNorm::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a frozen batch norm");
  require(epsilon >= 0, "epsilon is " + std::to_string(epsilon) + "; it must not be negative");
  const std::int64_t count = inputs[0].count();
  const std::vector<std::int64_t> channels{inputs[0].channels};
  return {.output = inputs[0],
          .state = {{.name = "weight", .shape = channels, .value = 1},
                    {.name = "bias", .shape = channels},
                    {.name = "running_mean", .shape = channels},
                    {.name = "running_var", .shape = channels, .value = 1}},
          .forward = {2 * count, 2 * count},
          .backward = {count, 2 * count}};
}

std::string FrozenBatchNorm::text() const { return "frozen batch norm"; }

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
