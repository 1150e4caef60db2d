// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/shapes.hpp"

namespace lockstep::ops {

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
    case gelu_tanh: break;
  }
  return {"GELU by tanh", 8, 17};
}

}  // namespace

Signature Pointwise::signature(std::span<const Shape> inputs) const {
  const PointwiseKind of = described(kind);
  require_inputs(inputs, 1, of.name);
  require(std::isfinite(slope) && slope >= 0,
          "slope is " + std::to_string(slope) + "; it must be finite and not negative");
  const std::int64_t count = inputs[0].count();
  return {
      .output = inputs[0], .forward = {of.forward * count, 2 * count}, .backward = {of.backward * count, 3 * count}};
}

std::string Pointwise::text() const { return described(kind).name; }

}  // namespace lockstep::ops
