// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Relu::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a ReLU");
  const std::int64_t count = inputs[0].count();
  return {.output = inputs[0], .forward = {count, 2 * count}, .backward = {count, 3 * count}};
}

std::string Relu::text() const { return "ReLU"; }

}  // namespace lockstep::ops
