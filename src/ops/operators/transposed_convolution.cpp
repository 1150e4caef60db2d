// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/shapes.hpp"

namespace lockstep::ops {

namespace {

void check_output_padding(const TransposedConvolution& shape) {
  const Pair& added = shape.output_padding;
  const Pair& stride = shape.stride;
  const Pair& dilation = shape.dilation;
  require_at_least(added, 0, "output_padding");
  require(
      added.height < std::max(stride.height, dilation.height) && added.width < std::max(stride.width, dilation.width),
      "output_padding is " + text(added) + "; it must be less than the stride, " + text(stride) +
          ", or the dilation, " + text(dilation));
}

Shape spread_out(const Shape& in, const TransposedConvolution& shape) {
  const auto along = [](std::int64_t extent, std::int64_t stride, std::int64_t padding, std::int64_t reach) {
    return (extent - 1) * stride - 2 * padding + reach + 1;
  };
  const auto reach = [](std::int64_t kernel, std::int64_t dilation, std::int64_t added) {
    return dilation * (kernel - 1) + added;
  };
  const Shape out{in.batch, shape.out_channels,
                  along(in.height, shape.stride.height, shape.padding.height,
                        reach(shape.kernel.height, shape.dilation.height, shape.output_padding.height)),
                  along(in.width, shape.stride.width, shape.padding.width,
                        reach(shape.kernel.width, shape.dilation.width, shape.output_padding.width))};
  require(out.height > 0 && out.width > 0, "a padding of " + text(shape.padding) + " leaves nothing of an input of " +
                                               text(in) + "; use less padding or a larger kernel");
  return out;
}

}  // namespace

Signature TransposedConvolution::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a transposed convolution");
  const Shape& in = inputs[0];
  require_at_least(out_channels, 1, "out_channels");
  require_groups(groups, in.channels, out_channels);
  check({kernel, stride, padding, dilation});
  check_output_padding(*this);
  const std::int64_t each = out_channels / groups * kernel.area();
  const OwnedTensor weights{.name = "weight",
                            .shape = {in.channels, out_channels / groups, kernel.height, kernel.width}};
  // As in PyTorch, the fan-in is that of the convolution in the other direction.
  return product(in, spread_out(in, *this), weights, bias, activation, {.products = in.count() * each, .fan_in = each});
}

std::string TransposedConvolution::text() const {
  return "transposed convolution " + ops::text(Windows{kernel, stride, padding, dilation}) + text_of_groups(groups) +
         ops::text(activation);
}

}  // namespace lockstep::ops
