// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Resize::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a resize");
  Shape out = inputs[0];
  if (scale != 0) {
    require_at_least(scale, 1, "scale");
    require(height == 0 && width == 0, "a resize has a scale, " + std::to_string(scale) + ", and a size, " +
                                           std::to_string(height) + "x" + std::to_string(width) + "; give one of them");
    out.height *= scale;
    out.width *= scale;
  } else {
    require_at_least(height, 1, "height");
    require_at_least(width, 1, "width");
    out.height = height;
    out.width = width;
  }
  require(!align_corners || mode == Interpolation::bilinear, "align_corners is for mode bilinear only");
  // Each element costs three sums of two weighted values.
  const std::int64_t flops = mode == Interpolation::bilinear ? 9 * out.count() : 0;
  const std::int64_t moved = inputs[0].count() + out.count();
  return {.output = out,
          .forward = {flops, moved},
          .backward = {mode == Interpolation::bilinear ? flops : out.count(), moved}};
}

std::string Resize::text() const {
  const std::string to = scale != 0 ? std::to_string(scale) + " times the size"
                                    : "to " + std::to_string(height) + "×" + std::to_string(width);
  return "resize " + to + (mode == Interpolation::nearest ? ", nearest" : ", bilinear") +
         (align_corners ? ", corners aligned" : "");
}

}  // namespace lockstep::ops
