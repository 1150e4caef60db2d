// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/shapes.hpp"
namespace lockstep::ops {

Signature Add::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "an addition");
  require_common(activation);
  const Shape& in = inputs[0];
  require(in == inputs[1], "cannot add activations of " + ops::text(in) + " and " + ops::text(inputs[1]));
  return {.output = in,
          .forward = with_activation({in.count(), 3 * in.count()}, activation, in.count(), false),
          .backward = with_activation({0, 3 * in.count()}, activation, in.count(), true)};
}

std::string Add::text() const { return "add" + ops::text(activation); }

Signature Relu::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a ReLU");
  const std::int64_t count = inputs[0].count();
  return {.output = inputs[0], .forward = {count, 2 * count}, .backward = {count, 3 * count}};
}

std::string Relu::text() const { return "ReLU"; }

namespace {

/// The operations per element. An exponential or a similar function counts as one.
struct PointwiseKind {
  const char* name;
  std::int64_t forward;
  std::int64_t backward;
};

PointwiseKind described(Pointwise::Kind kind) {
  using enum Pointwise::Kind;
  switch (kind) {
    case relu6: return {"ReLU6", 2, 2};
    case leaky_relu: return {"leaky ReLU", 2, 2};
    case silu: return {"SiLU", 3, 7};
    case hard_swish: return {"hard swish", 5, 5};
    case sigmoid: return {"sigmoid", 3, 3};
    case tanh: return {"tanh", 1, 3};
    case gelu: return {"GELU", 5, 9};
    case affine: return {"affine function", 2, 1};
    case hard_sigmoid: return {"hard sigmoid", 4, 3};
    case gelu_tanh: break;
  }
  return {"GELU by tanh", 8, 17};
}

bool fit(std::int64_t a, std::int64_t b) { return a == b || a == 1 || b == 1; }

}  // namespace

Signature Pointwise::signature(std::span<const Shape> inputs) const {
  const PointwiseKind of = described(kind);
  require_inputs(inputs, 1, of.name);
  const bool may_be_negative = kind == Kind::affine;
  require(std::isfinite(slope) && (slope >= 0 || may_be_negative),
          "slope is " + std::to_string(slope) + "; it must be finite" + (may_be_negative ? "" : " and not negative"));
  require(std::isfinite(offset), "offset is " + std::to_string(offset) + "; it must be finite");
  const std::int64_t count = inputs[0].count();
  return {
      .output = inputs[0], .forward = {of.forward * count, 2 * count}, .backward = {of.backward * count, 3 * count}};
}

std::string Pointwise::text() const { return described(kind).name; }

Signature Multiply::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 2, "a multiplication");
  const Shape& a = inputs[0];
  const Shape& b = inputs[1];
  require(a.batch == b.batch && fit(a.channels, b.channels) && fit(a.height, b.height) && fit(a.width, b.width),
          "cannot multiply activations of " + ops::text(a) + " and " + ops::text(b) +
              "; apart from the batch, extents have to be equal or 1");
  const Shape out{a.batch, std::max(a.channels, b.channels), std::max(a.height, b.height), std::max(a.width, b.width)};
  const std::int64_t factors = a.count() + b.count();
  // Backward costs a product for each gradient, and a sum for a factor that is smaller than the result.
  const std::int64_t sums = (a == out ? 0 : out.count()) + (b == out ? 0 : out.count());
  return {.output = out,
          .forward = {out.count(), factors + out.count()},
          .backward = {2 * out.count() + sums, 2 * factors + out.count()}};
}

std::string Multiply::text() const { return "multiply"; }

Signature Dropout::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "dropout");
  require(probability >= 0 && probability < 1,
          "probability is " + std::to_string(probability) + "; it must be in 0 … 1, 1 excluded");
  const std::int64_t count = inputs[0].count();
  // The random number of an element costs about ten operations.
  return {.output = inputs[0], .forward = {11 * count, 2 * count}, .backward = {11 * count, 2 * count}};
}

std::string Dropout::text() const { return "dropout of " + std::to_string(probability).substr(0, 4); }

Signature Custom::signature(std::span<const Shape> inputs) const {
  require(of != nullptr, "a custom operator is nothing; give it an object");
  return of->signature(inputs);
}

std::string Custom::text() const { return of == nullptr ? "nothing" : of->text(); }

}  // namespace lockstep::ops
