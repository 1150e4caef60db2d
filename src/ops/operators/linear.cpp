// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Linear::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a linear layer");
  require_at_least(out_features, 1, "out_features");
  const Shape& in = inputs[0];
  const Shape out{in.batch, out_features, 1, 1};
  return product(in, out, {.name = "weight", .shape = {out_features, in.channels * in.height * in.width}}, true,
                 activation);
}

std::string Linear::text() const { return "linear" + ops::text(activation); }

}  // namespace lockstep::ops
