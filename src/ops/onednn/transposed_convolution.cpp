// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reference.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/windowed.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Makes oneDNN's deconvolution. Its weights are out × in, or groups × out × in, so PyTorch's are transposed. Its end
/// padding is reduced by the output padding and can be negative.
std::unique_ptr<Kernel> make_deconvolution(const TransposedConvolution& shape, const ContextPtr& context,
                                           const Format& in) {
  using Windowed = WindowedKernel<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                                  dnnl::deconvolution_backward_weights>;
  const std::int64_t in_channels = in.shape.channels;
  return std::make_unique<Windowed>(
      context, in,
      WindowedOptions{.out = shape.signature(std::span(&in.shape, 1)).output,
                      .forward = dnnl::algorithm::deconvolution_direct,
                      .backward_data = dnnl::algorithm::deconvolution_direct,
                      .backward_weights = dnnl::algorithm::deconvolution_direct,
                      .passed_over = faulty_kernels(shape.stride, shape.groups, in_channels, shape.out_channels),
                      .stride = dims_of(shape.stride),
                      .dilation = {shape.dilation.height - 1, shape.dilation.width - 1},
                      .padding = dims_of(shape.padding),
                      .end_padding = {shape.padding.height - shape.output_padding.height,
                                      shape.padding.width - shape.output_padding.width},
                      .weights = weight_dims(shape.groups, shape.out_channels, in_channels, shape.kernel),
                      .plain_weights = shape.groups == 1 ? Tag::iohw : Tag::giohw,
                      .bias = shape.bias,
                      .relu = shape.activation == Activation::relu});
}

}  // namespace

std::unique_ptr<Kernel> make(const TransposedConvolution& shape, const ContextPtr& context,
                             std::span<const Format> in) {
  // oneDNN supports only an output padding smaller than the stride, whatever the dilation.
  const bool adds_more =
      shape.output_padding.height >= shape.stride.height || shape.output_padding.width >= shape.stride.width;
  return adds_more ? make_reference_ops()->make(shape, in) : make_deconvolution(shape, context, in[0]);
}

}  // namespace lockstep::ops::onednn
