// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/weighted.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {
namespace {

/// Describes weights in the layout of the activations, so that a kernel reads both in the same order. With `any`,
/// oneDNN 2.6.3 blocks 128×64×7×7 weights over the outputs, and the reorder alone takes ten times as long as the
/// product. From the plain layout to this one the reorder takes 0.07 ms, the product 0.2 ms.
Desc weights_like(const Desc& src, const Dims& dims, DType dtype) {
  for (const Tag tag : {Tag::abcd, Tag::acdb, Tag::aBcd16b, Tag::aBcd8b}) {
    if (dims.size() == 4 && src == describe(dims_of(src), tag, dtype_of(src))) return describe(dims, tag, dtype);
  }
  return describe(dims, Tag::any, dtype);
}

/// Returns whether each image is one pixel, whose channels are contiguous in every layout without padding.
bool is_matrix(const Format& in) {
  return in.shape.height == 1 && in.shape.width == 1 && channel_tag(in) &&
         in.bytes == Format::plain(in.shape, in.dtype).bytes;
}

/// Returns the format in which the activation is read. If it stays blocked, the weights are copied to its layout, for
/// the forward pass and for both backward passes. If it becomes plain, it is copied, and so is its gradient. bfloat16
/// weights are copied in any case.
Format input_of_linear(const Format& in, const Linear& linear) {
  const bool fewer = 2 * in.shape.batch < 3 * linear.out_features;
  return fewer && !is_matrix(in) && in.dtype == DType::float32 ? Format::plain(in.shape, in.dtype) : in;
}

class LinearKernel final : public WeightedKernel {
 public:
  /// @param in  the format that `input_of_linear` returned
  LinearKernel(const ContextPtr& context, const Format& in, const Linear& linear)
      : WeightedKernel(true, linear.activation == Activation::relu) {
    set({.inputs = {in},
         .output = Format::plain({in.shape.batch, linear.out_features, 1, 1}, in.dtype),
         .backward_reads_output = linear.activation != Activation::none});
    const bool matrix = is_matrix(in);
    const Desc src = matrix ? describe({in.shape.batch, in.shape.channels}, Tag::nc, in.dtype) : to_desc(in);
    const Desc dst = describe({in.shape.batch, linear.out_features}, Tag::nc, in.dtype);
    const Desc bias = describe({linear.out_features}, Tag::x);
    Dims weights = dims_of(src);
    weights[0] = linear.out_features;
    const Desc factors = weights_like(src, weights, in.dtype);
    const auto parameters = [&](bool relu) { return PrimitiveParameters{context->engine, attributes(relu)}; };
    const auto forward = make_desc<dnnl::inner_product_forward>(
        parameters(linear.activation == Activation::relu), dnnl::prop_kind::forward_training, src, factors, bias, dst);
    make_primitives(context, describe(weights, matrix ? Tag::oi : Tag::oihw), forward,
                    make_backward_desc<dnnl::inner_product_backward_data>(
                        parameters(false), forward, forward.src_desc(), factors, forward.dst_desc()),
                    make_backward_desc<dnnl::inner_product_backward_weights>(
                        parameters(false), forward, forward.src_desc(), weights_like(src, weights, DType::float32),
                        bias, forward.dst_desc()));
  }
};

}  // namespace

KernelPtr make(const Linear& linear, const ContextPtr& context, Formats in) {
  return std::make_unique<LinearKernel>(context, input_of_linear(in[0], linear), linear);
}

}  // namespace lockstep::ops::onednn
