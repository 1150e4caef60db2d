// SPDX-License-Identifier: Apache-2.0
#include "kernels/depthwise.hpp"

#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/onednn/windowed.hpp"

namespace lockstep::ops::onednn {
namespace {

/// A depthwise convolution by oneDNN in blocks of channels, whose weights get their gradient from loops of lockstep's.
/// oneDNN 2.6.3 has no kernel for that in blocks where the window is higher than the image. Its kernel for channels
/// last takes four times as long, and so do the batch norms beside it.
class DepthwiseKernel final : public Kernel {
 public:
  using Forward = dnnl::convolution_forward::primitive_desc;
  using BackwardData = dnnl::convolution_backward_data::primitive_desc;

  DepthwiseKernel(const ContextPtr& context, const Format& in, const Format& out, const Convolution& shape,
                  const Forward& ahead, const BackwardData& data)
      : Kernel({.inputs = {in}, .output = out, .backward_reads_output = false}),
        extents_{.images = in.shape.batch,
                 .groups = channel_layout(in).groups,
                 .lanes = channel_layout(in).lanes,
                 .height = in.shape.height,
                 .width = in.shape.width,
                 .out_height = out.shape.height,
                 .out_width = out.shape.width,
                 .kernel = shape.kernel.width,
                 .stride_height = shape.stride.height,
                 .stride_width = shape.stride.width,
                 .padding_height = shape.padding.height,
                 .padding_width = shape.padding.width} {
    const Desc plain =
        describe(weight_dims(shape.groups, shape.out_channels, in.shape.channels, shape.kernel), Tag::goihw);
    forward_weights_ = Reordered(context, plain, ahead.weights_desc());
    forward_ = Primitive(
        context, ahead,
        {{DNNL_ARG_SRC, ahead.src_desc()}, {DNNL_ARG_WEIGHTS, ahead.weights_desc()}, {DNNL_ARG_DST, ahead.dst_desc()}});
    backward_weights_ = Reordered(context, plain, data.weights_desc());
    backward_ = Primitive(context, data,
                          {{DNNL_ARG_DIFF_DST, data.diff_dst_desc()},
                           {DNNL_ARG_WEIGHTS, data.weights_desc()},
                           {DNNL_ARG_DIFF_SRC, data.diff_src_desc()}});
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_.kernel() + ", loops";
  }

  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]},
                  {DNNL_ARG_WEIGHTS, forward_weights_.load(call.parameters[0])},
                  {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] != nullptr) {
      backward_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                     {DNNL_ARG_WEIGHTS, backward_weights_.load(call.parameters[0])},
                     {DNNL_ARG_DIFF_SRC, call.input_gradients[0]}});
    }
    on_team([&](int member, int members) {
      kernels::depthwise_weight_gradient(static_cast<const float*>(call.inputs[0]),
                                         static_cast<const float*>(call.output_gradient), extents_,
                                         extents_.groups * member / members, extents_.groups * (member + 1) / members,
                                         static_cast<float*>(call.parameter_gradients[0]));
    });
  }

 private:
  kernels::DepthwiseExtents extents_;
  Primitive forward_;
  Primitive backward_;
  Reordered forward_weights_;
  Reordered backward_weights_;
};

bool is_by_depthwise_kernel(const char* name) { return std::string_view(name).starts_with("jit_dw"); }

/// Whether oneDNN has a depthwise kernel for the gradient of the weights, too.
bool has_weight_gradient(const PrimitiveParameters& setting, const DepthwiseKernel::Forward& ahead, const Dims& weights,
                         const Dims& stride, const Dims& padding) {
  try {
    const auto desc = make_backward_desc<dnnl::convolution_backward_weights>(
        setting, ahead, dnnl::algorithm::convolution_direct, ahead.src_desc(), describe(weights, Tag::any),
        ahead.dst_desc(), stride, Dims{0, 0}, padding, padding);
    return is_by_depthwise_kernel(desc.impl_info_str());
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

KernelPtr make_depthwise(const Convolution& shape, const ContextPtr& context, const Format& in) {
  const bool is_depthwise = shape.groups == in.shape.channels && shape.groups == shape.out_channels;
  if (!is_depthwise || shape.groups == 1 || in.dtype != DType::float32 || shape.bias ||
      shape.activation != Activation::none || shape.dilation != 1 || shape.kernel.height != shape.kernel.width)
    return nullptr;
  const Shape out = shape.signature(std::span(&in.shape, 1)).output;
  const Dims weights = weight_dims(shape.groups, shape.out_channels, in.shape.channels, shape.kernel);
  const PrimitiveParameters setting{context->engine, attributes()};
  const Dims stride = dims_of(shape.stride);
  const Dims padding = dims_of(shape.padding);
  const auto ahead = make_desc<dnnl::convolution_forward>(
      setting, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      describe(dims_of(in.shape), Tag::any), describe(weights, Tag::any), describe(dims_of(out), Tag::any), stride,
      Dims{0, 0}, padding, padding);
  const Format blocked = to_format(ahead.src_desc(), in.shape);
  const Format result = to_format(ahead.dst_desc(), out);
  if (!is_by_depthwise_kernel(ahead.impl_info_str()) || !channel_tag(blocked) || !channel_tag(result) ||
      channel_layout(blocked).channels() != in.shape.channels ||
      !kernels::has_depthwise_weight_gradient(channel_layout(blocked).lanes, shape.kernel.width))
    return nullptr;
  const auto data = make_backward_desc<dnnl::convolution_backward_data>(
      setting, ahead, dnnl::algorithm::convolution_direct, ahead.src_desc(), describe(weights, Tag::any),
      ahead.dst_desc(), stride, Dims{0, 0}, padding, padding);
  if (!is_by_depthwise_kernel(data.impl_info_str()) || has_weight_gradient(setting, ahead, weights, stride, padding))
    return nullptr;
  return std::make_unique<DepthwiseKernel>(context, blocked, result, shape, ahead, data);
}

}  // namespace lockstep::ops::onednn
