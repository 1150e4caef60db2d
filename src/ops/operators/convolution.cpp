// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Convolution::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a convolution");
  require_at_least(out_channels, 1, "out_channels");
  require_groups(groups, inputs[0].channels, out_channels);
  const Shape out = windows_of(inputs[0], out_channels, {kernel, stride, padding, dilation});
  const OwnedTensor weights{.name = "weight",
                            .shape = {out_channels, inputs[0].channels / groups, kernel.height, kernel.width}};
  return product(inputs[0], out, weights, bias, activation);
}

std::string Convolution::text() const {
  return "convolution " + ops::text(Windows{kernel, stride, padding, dilation}) + text_of_groups(groups) +
         ops::text(activation);
}

}  // namespace lockstep::ops
