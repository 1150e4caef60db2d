// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

#include <cmath>

#include "lockstep/base/error.hpp"

namespace lockstep::ops {

std::vector<Shape> shapes_of(Formats formats) {
  std::vector<Shape> shapes;
  for (const Format& format : formats) shapes.push_back(format.shape);
  return shapes;
}

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

void require_at_least(const Pair& value, std::int64_t least, const char* what) {
  require(value.height >= least && value.width >= least,
          std::string(what) + " is " + text(value) + "; it must be at least " + std::to_string(least));
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

/// Returns the number of windows that span `reach` along an axis of `extent` elements, padding included.
std::int64_t along(std::int64_t extent, std::int64_t reach, std::int64_t stride) {
  return extent < reach ? 0 : (extent - reach) / stride + 1;
}

std::string unless_one(const char* what, const Pair& value) { return value == 1 ? "" : what + text(value); }

}  // namespace

void check(const Windows& windows) {
  require_at_least(windows.kernel, 1, "kernel");
  require_at_least(windows.stride, 1, "stride");
  require_at_least(windows.padding, 0, "padding");
  require_at_least(windows.dilation, 1, "dilation");
}

Shape windows_of(const Shape& in, std::int64_t channels, const Windows& windows) {
  check(windows);
  const auto& [kernel, stride, padding, dilation] = windows;
  const Shape out{in.batch, channels,
                  along(in.height + 2 * padding.height, (kernel.height - 1) * dilation.height + 1, stride.height),
                  along(in.width + 2 * padding.width, (kernel.width - 1) * dilation.width + 1, stride.width)};
  require(out.height > 0 && out.width > 0, "a kernel of " + text(kernel) + unless_one(" and dilation ", dilation) +
                                               " does not fit an input of " + text(in) +
                                               "; use a smaller kernel or more padding");
  return out;
}

Stretch adaptive_window(std::int64_t index, std::int64_t windows, std::int64_t extent) {
  return {index * extent / windows, ((index + 1) * extent + windows - 1) / windows};
}

void require_groups(std::int64_t groups, std::int64_t in_channels, std::int64_t out_channels) {
  require_at_least(groups, 1, "groups");
  require(in_channels % groups == 0 && out_channels % groups == 0,
          "groups is " + std::to_string(groups) + "; it must divide both the " + std::to_string(in_channels) +
              " channels of the input and the " + std::to_string(out_channels) + " of the output");
}

std::string text(const Pair& pair) {
  const std::string height = std::to_string(pair.height);
  return pair.height == pair.width ? height : height + "×" + std::to_string(pair.width);
}

std::string text(const Windows& windows) {
  return std::to_string(windows.kernel.height) + "×" + std::to_string(windows.kernel.width) +
         unless_one(", stride ", windows.stride) + unless_one(", dilation ", windows.dilation);
}

std::string text_of_groups(std::int64_t groups) { return groups == 1 ? "" : ", groups " + std::to_string(groups); }

std::string text(Activation activation) {
  if (activation == Activation::none) return "";
  return activation == Activation::relu ? ", ReLU" : ", ReLU6";
}

void require_common(Activation activation) {
  if (activation != Activation::relu6) return;
  throw Error(ErrorCode::invalid_argument,
              "only batch norm has a ReLU6 of its own; let Pointwise{.kind = Pointwise::Kind::relu6} follow instead");
}

OperatorCost with_activation(OperatorCost own, Activation activation, std::int64_t results, bool backward) {
  if (activation == Activation::none) return own;
  return {own.flops + results, own.elements + (backward ? results : 0)};
}

Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation) {
  const std::int64_t each = weights.count() / out.channels;
  return product(in, out, std::move(weights), bias, activation, {.products = out.count() * each, .fan_in = each});
}

Signature product(const Shape& in, const Shape& out, OwnedTensor weights, bool bias, Activation activation,
                  const Products& of) {
  require_common(activation);
  constexpr std::int64_t per_multiply_add = 2;
  // This is PyTorch's default: Kaiming uniform with a = √5, for weights and for biases.
  weights.spread = 1 / std::sqrt(static_cast<double>(of.fan_in));
  const std::int64_t products = per_multiply_add * of.products;
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
