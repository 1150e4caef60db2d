// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/reordered.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Direct or Winograd, by a rule that all ranks follow alike; measuring at start could make them differ. oneDNN 2.6.3
/// on one AMD Zen 5 core, 3×3, batch 64, µs forward / backward data / backward weights:
///
///                     Winograd               direct
///   1 → 32, 28×28     1108 / 1204 /  940      171 / 1693 /  164
///   16 → 16, 32×32    1608 / 1565 / 1532     1514 / 1185 / 1211
///   32 → 64, 14×14    1062 / 1368 / 1745     1718 / 1697 / 1745
///   32 → 32, 16×16     757 /  750 /  969     1113 / 1097 / 1140
///   64 → 64, 8×8       570 /  558 /  827     1083 / 1072 / 1195
///
/// Winograd's results are 3.5 (32 channels) to 4.5 (64) times as far from the exact ones, 6.8e-7 relative L2 against
/// 1.5e-7. Deep networks with batch norm are sensitive to that, through the ReLUs whose sign changes; they have no ReLU
/// right behind the convolution. In LeNet the gradients' errors stay within 1.5 times those of PyTorch's float32 either
/// way. `convolution_auto`, Winograd wherever there is a kernel, would take it for one input channel too.
/// An image's result does not depend on the batch it is in, with either.
dnnl::algorithm choose_algorithm(const Format& in, const Convolution& shape) {
  const bool faster = in.shape.channels >= 32 && shape.out_channels >= 32 && shape.kernel == 3 && shape.stride == 1 &&
                      shape.dilation == 1 && shape.groups == 1;
  const bool harmless = shape.activation == Activation::relu;
  return faster && harmless ? dnnl::algorithm::convolution_auto : dnnl::algorithm::convolution_direct;
}

/// oneDNN's 1×1 kernels gather a strided image in scratch memory. Where channels do not fill their vectors, those of
/// 2.6.3 for AVX2 write beyond what they asked for.
std::string_view faulty_kernels(const Format& in, const Convolution& shape) {
  const std::int64_t in_channels = in.shape.channels / shape.groups;
  const std::int64_t out_channels = shape.out_channels / shape.groups;
  const bool faulty = shape.stride != 1 && (in_channels % 8 != 0 || out_channels % 8 != 0);
  return faulty ? "jit_1x1" : "";
}

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const ContextPtr& context, const Format& in, const Convolution& shape, const Shape& out)
      : shape_(shape),
        algorithm_(choose_algorithm(in, shape)),
        passed_over_(faulty_kernels(in, shape)),
        stride_(dims_of(shape.stride)),
        padding_(dims_of(shape.padding)),
        dilation_{shape.dilation.height - 1, shape.dilation.width - 1},
        weights_(weight_dims(shape, in.shape.channels)) {
    const auto forward_desc = make_forward(context, to_desc(in), dims_of(out));
    set({.inputs = {in}, .output = to_format(forward_desc.dst_desc(), out), .backward_reads_output = relu()});
    make_backward_data(context, forward_desc);
    make_backward_weights(context, forward_desc);
    if (relu()) relu_backward_ = ReluBackward(context, forward_desc.dst_desc());
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_data_.kernel() + ", " + backward_weights_.kernel();
  }

  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]},
                  {DNNL_ARG_WEIGHTS, forward_weights_.load(call.parameters[0])},
                  {DNNL_ARG_BIAS, shape_.bias ? call.parameters[1] : nullptr},
                  {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    if (relu()) relu_backward_.run(call.output, call.output_gradient, call.output_gradient);
    if (call.input_gradients[0] != nullptr) {
      backward_data_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                          {DNNL_ARG_WEIGHTS, backward_weights_in_.load(call.parameters[0])},
                          {DNNL_ARG_DIFF_SRC, call.input_gradients[0]}});
    }
    backward_weights_.run({{DNNL_ARG_SRC, call.inputs[0]},
                           {DNNL_ARG_DIFF_DST, call.output_gradient},
                           {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.target(call.parameter_gradients[0])},
                           {DNNL_ARG_DIFF_BIAS, shape_.bias ? call.parameter_gradients[1] : nullptr}});
    weight_gradient_.store(call.parameter_gradients[0]);
  }

 private:
  using ForwardDesc = dnnl::convolution_forward::primitive_desc;

  [[nodiscard]] Setting setting(const ContextPtr& context, bool relu = false) const {
    return {context->engine, attributes(relu), passed_over_};
  }

  static Dims weight_dims(const Convolution& shape, std::int64_t in_channels) {
    const std::int64_t groups = shape.groups;
    if (groups == 1) return {shape.out_channels, in_channels, shape.kernel.height, shape.kernel.width};
    return {groups, shape.out_channels / groups, in_channels / groups, shape.kernel.height, shape.kernel.width};
  }

  ForwardDesc make_forward(const ContextPtr& context, const Desc& src, const Dims& dst) {
    const auto kind = dnnl::prop_kind::forward_training;
    const Desc any = any_weights();
    const Desc dst_any = describe(dst, Tag::any);
    const auto make = [&](const auto&... bias) {
      return make_desc<dnnl::convolution_forward>(setting(context, relu()), kind, algorithm_, src, any, bias...,
                                                  dst_any, stride_, dilation_, padding_, padding_);
    };
    ForwardDesc desc = shape_.bias ? make(bias()) : make();
    forward_weights_ = Reordered(context, plain_weights(), desc.weights_desc());
    forward_ = Primitive(context, dnnl::convolution_forward(desc), desc.scratchpad_desc(),
                         {{DNNL_ARG_SRC, desc.src_desc()},
                          {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                          {DNNL_ARG_BIAS, desc.bias_desc()},
                          {DNNL_ARG_DST, desc.dst_desc()}});
    return desc;
  }

  void make_backward_data(const ContextPtr& context, const ForwardDesc& hint) {
    const auto desc = make_backward_desc<dnnl::convolution_backward_data>(
        setting(context), hint, algorithm_, hint.src_desc(), any_weights(), hint.dst_desc(), stride_, dilation_,
        padding_, padding_);
    backward_weights_in_ = Reordered(context, plain_weights(), desc.weights_desc());
    backward_data_ = Primitive(context, dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
                               {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}});
  }

  void make_backward_weights(const ContextPtr& context, const ForwardDesc& hint) {
    const Desc any = any_weights();
    const auto make = [&](const auto&... bias) {
      return make_backward_desc<dnnl::convolution_backward_weights>(
          setting(context), hint, dnnl::algorithm::convolution_direct, hint.src_desc(), any, bias..., hint.dst_desc(),
          stride_, dilation_, padding_, padding_);
    };
    const auto desc = shape_.bias ? make(bias()) : make();
    weight_gradient_ = Reordered(context, plain_weights(), desc.diff_weights_desc());
    backward_weights_ = Primitive(context, dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
                                  {{DNNL_ARG_SRC, desc.src_desc()},
                                   {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                   {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()},
                                   {DNNL_ARG_DIFF_BIAS, desc.diff_bias_desc()}});
  }

  [[nodiscard]] bool relu() const { return shape_.activation == Activation::relu; }
  [[nodiscard]] Desc any_weights() const { return describe(weights_, Tag::any); }
  [[nodiscard]] Desc plain_weights() const { return describe(weights_, shape_.groups == 1 ? Tag::oihw : Tag::goihw); }
  [[nodiscard]] Desc bias() const { return describe({shape_.out_channels}, Tag::x); }

  Convolution shape_;
  dnnl::algorithm algorithm_;  ///< forward and backward data; weight gradients are always direct
  std::string_view passed_over_;
  Dims stride_;
  Dims padding_;
  Dims dilation_;  ///< 0: none
  Dims weights_;
  Primitive forward_;
  Primitive backward_data_;
  Primitive backward_weights_;
  Reordered forward_weights_;
  Reordered backward_weights_in_;
  Reordered weight_gradient_;
  ReluBackward relu_backward_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Convolution& shape, const ContextPtr& context, std::span<const Format> in) {
  const Shape out = shape.signature(std::span(&in[0].shape, 1)).output;
  return std::make_unique<ConvolutionKernel>(context, in[0], shape, out);
}

}  // namespace lockstep::ops::onednn
