// SPDX-License-Identifier: Apache-2.0
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

}  // namespace lockstep::ops
