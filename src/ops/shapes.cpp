// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

#include <cmath>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep::ops {

std::string text(const Shape& shape) {
  return std::to_string(shape.batch) + "x" + std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorCode::invalid_argument, message);
}

void require_at_least(std::int64_t value, std::int64_t least, const char* what) {
  require(value >= least,
          std::string(what) + " is " + std::to_string(value) + "; it must be at least " + std::to_string(least));
}

void require_inputs(std::span<const Shape> inputs, std::size_t number, const char* what) {
  require(inputs.size() == number, std::string(what) + " takes " + std::to_string(number) + " input" +
                                       (number == 1 ? "" : "s") + ", not " + std::to_string(inputs.size()));
  for (const Shape& shape : inputs) {
    require(shape.batch >= 0 && shape.channels > 0 && shape.height > 0 && shape.width > 0,
            "activation shape " + text(shape) + " has an extent below 1 (only the batch may be 0)");
  }
}

namespace {

/// Windows along one axis of `extent` elements, zeros on both sides included.
std::int64_t along(const Shape& in, std::int64_t extent, const Windows& windows) {
  require(extent >= windows.kernel, "a kernel of " + std::to_string(windows.kernel) + " does not fit an input of " +
                                        text(in) + "; use a smaller kernel or more padding");
  return (extent - windows.kernel) / windows.stride + 1;
}

}  // namespace

Shape windows_of(const Shape& in, std::int64_t channels, const Windows& windows) {
  require_at_least(windows.kernel, 1, "kernel");
  require_at_least(windows.stride, 1, "stride");
  require_at_least(windows.padding, 0, "padding");
  return {in.batch, channels, along(in, in.height + 2 * windows.padding, windows),
          along(in, in.width + 2 * windows.padding, windows)};
}

std::string text(const Windows& windows) {
  const std::string side = std::to_string(windows.kernel);
  return side + "×" + side + (windows.stride == 1 ? "" : ", stride " + std::to_string(windows.stride));
}

std::string text(Activation activation) { return activation == Activation::relu ? ", ReLU" : ""; }

Cost with_activation(Cost own, Activation activation, std::int64_t results, bool backward) {
  if (activation == Activation::none) return own;
  return {own.flops + results, own.elements + (backward ? results : 0)};
}

Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation) {
  constexpr std::int64_t per_multiply_add = 2;
  const std::int64_t each = weights.count() / out.channels;
  // PyTorch's default: Kaiming uniform with a = √5, for biases as for weights.
  weights.spread = 1 / std::sqrt(static_cast<double>(each));
  const std::int64_t products = per_multiply_add * out.count() * each;
  const std::int64_t weight_count = weights.count() + (bias ? out.channels : 0);
  const std::int64_t moved = in.count() + weight_count + out.count();
  Signature signature{.output = out,
                      .forward = with_activation({products, moved}, activation, out.count(), false),
                      .backward = with_activation({products, moved}, activation, out.count(), true),
                      .backward_inputs = {products, weight_count + in.count()}};
  const double spread = weights.spread;
  signature.parameters.push_back(std::move(weights));
  if (bias) signature.parameters.push_back({.name = "bias", .shape = {out.channels}, .spread = spread});
  return signature;
}

}  // namespace lockstep::ops
