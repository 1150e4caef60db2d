// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/shapes.hpp"
namespace lockstep::ops::onednn {
namespace {

/// oneDNN's algorithms for a function and its derivative.
struct Eltwise {
  dnnl::algorithm forward;
  dnnl::algorithm backward;  ///< has the same coefficients
  float alpha = 0;
  float beta = 0;
  int in_place_gradient = -1;  ///< @see Traits

  /// Returns whether the derivative is a function of the result, so that the argument need not be kept.
  [[nodiscard]] bool by_output() const { return forward != backward; }
};

Eltwise eltwise_of(const Pointwise& op) {
  using enum Pointwise::Kind;
  using enum dnnl::algorithm;
  switch (op.kind) {
    case relu6: return {eltwise_clip_v2, eltwise_clip_v2_use_dst_for_bwd, 0, 6};
    case leaky_relu: return {eltwise_relu, eltwise_relu_use_dst_for_bwd, static_cast<float>(op.slope)};
    case silu: return {eltwise_swish, eltwise_swish, 1};
    case hard_swish:
      return {eltwise_hardswish, eltwise_hardswish, 1.0F / 6, 0.5F};  // oneDNN 2 ignores the coefficients
    case sigmoid: return {eltwise_logistic, eltwise_logistic_use_dst_for_bwd};
    case tanh: return {eltwise_tanh, eltwise_tanh_use_dst_for_bwd};
    case gelu: return {eltwise_gelu_erf, eltwise_gelu_erf};
    case affine: return {eltwise_linear, eltwise_linear, static_cast<float>(op.slope), static_cast<float>(op.offset)};
    case hard_sigmoid:
    case gelu_tanh: break;
  }
  return {eltwise_gelu_tanh, eltwise_gelu_tanh};
}

/// Whether zeros stay zeros, those in the padding of channels included.
bool keeps_zeros(dnnl::algorithm algorithm) {
  return algorithm != dnnl::algorithm::eltwise_logistic && algorithm != dnnl::algorithm::eltwise_linear;
}

/// Describes the memory of a tensor as one row, whatever its layout. Where channels are padded, oneDNN's fast kernels
/// of some functions do not take the tensor as it is, and its others are 300 times as slow.
Desc row_of(const Format& format) {
  const Desc desc = to_desc(format);
  return Desc({format.bytes.value / size_of(format.dtype)}, type_of(desc), dnnl::memory::format_tag::a);
}

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const ContextPtr& context, const Format& in, const Eltwise& function)
      : Kernel({.inputs = {in},
                .output = in,
                .backward_reads_inputs = !function.by_output(),
                .backward_reads_output = function.by_output(),
                .in_place_gradient = function.in_place_gradient}),
        by_output_(function.by_output()) {
    const Desc desc = keeps_zeros(function.forward) ? row_of(in) : to_desc(in);
    const PrimitiveParameters setting{context->engine, attributes()};
    const auto make = [&](dnnl::algorithm algorithm) {
      return make_desc<dnnl::eltwise_forward>(setting, dnnl::prop_kind::forward_training, algorithm, desc, desc,
                                              function.alpha, function.beta);
    };
    const auto forward = make(function.forward);
    forward_ = Primitive(context, forward, {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}});
    const auto backward = make_backward_desc<dnnl::eltwise_backward>(
        setting, make(function.backward), function.backward, desc, desc, desc, function.alpha, function.beta);
    backward_ = Primitive(
        context, backward,
        {{by_output_ ? DNNL_ARG_DST : DNNL_ARG_SRC, desc}, {DNNL_ARG_DIFF_DST, desc}, {DNNL_ARG_DIFF_SRC, desc}});
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    backward_.run(
        {by_output_ ? Primitive::Binding{DNNL_ARG_DST, call.output} : Primitive::Binding{DNNL_ARG_SRC, call.inputs[0]},
         {DNNL_ARG_DIFF_DST, call.output_gradient},
         {DNNL_ARG_DIFF_SRC, call.input_gradients[0]}});
  }

 private:
  bool by_output_;
  Primitive forward_;
  Primitive backward_;
};

/// A line and then a clip, in place, because oneDNN 2 has no hard sigmoid.
class HardSigmoidKernel final : public Kernel {
 public:
  HardSigmoidKernel(const ContextPtr& context, const Format& in, const Pointwise& function)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false}),
        line_(context, in,
              {dnnl::algorithm::eltwise_linear, dnnl::algorithm::eltwise_linear, static_cast<float>(function.slope),
               static_cast<float>(function.offset)}),
        clip_(context, in, {dnnl::algorithm::eltwise_clip_v2, dnnl::algorithm::eltwise_clip_v2_use_dst_for_bwd, 0, 1}) {
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override { return clip_.algorithm(pass); }

  void forward(const Arguments& call) override {
    line_.forward(call);
    const void* line = call.output;
    clip_.forward({.inputs = {&line, 1}, .output = call.output});
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    clip_.backward(call);
    const void* unread = call.output;  // the derivative of a line does not depend on its argument
    line_.backward(
        {.inputs = {&unread, 1}, .output_gradient = call.input_gradients[0], .input_gradients = call.input_gradients});
  }

 private:
  PointwiseKernel line_;
  PointwiseKernel clip_;
};

/// The result has the format of the first summand.
class AddKernel final : public Kernel {
 public:
  AddKernel(const ContextPtr& context, const Format& a, const Format& b, bool relu)
      : Kernel({.inputs = {a, b},
                .output = a,
                .backward_reads_inputs = false,
                .backward_reads_output = relu,
                .in_place_gradient = 0}),
        relu_(relu) {
    const Desc first = to_desc(a);
    const Desc second = to_desc(b);
    same_layout_ = first == second;
    const auto desc = make_desc<dnnl::binary>(PrimitiveParameters{context->engine, attributes(relu_)},
                                              dnnl::algorithm::binary_add, first, second, first);
    forward_ = Primitive(context, desc, {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, first}});
    if (relu_) relu_backward_ = ReluBackward(context, first);
    if (!same_layout_) second_gradient_ = make_reorder(context, first, second);
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    if (pass != Pass::backward) return forward_.kernel();
    return relu_ ? relu_backward_.kernel() : "copy";
  }

  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC_0, call.inputs[0]}, {DNNL_ARG_SRC_1, call.inputs[1]}, {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    const void* gradient = call.output_gradient;
    void* first = call.input_gradients[0];
    void* second = call.input_gradients[1];
    if (relu_) {
      // The mask writes directly to the first summand's gradient if there is one, so the output's gradient is not
      // written.
      void* masked = first != nullptr ? first : call.output_gradient;
      relu_backward_.run(call.output, gradient, masked);
      gradient = masked;
    }
    if (first != nullptr && first != gradient) std::memcpy(first, gradient, bytes());
    if (second == nullptr || second == gradient) return;
    if (same_layout_) {
      std::memcpy(second, gradient, bytes());
    } else {
      second_gradient_.run({{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, second}});
    }
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(traits().output.bytes.value); }

  bool relu_;
  bool same_layout_ = true;
  Primitive forward_;
  Primitive second_gradient_;
  ReluBackward relu_backward_;
};

}  // namespace

KernelPtr make(const Pointwise& function, const ContextPtr& context, Formats in) {
  if (function.kind == Pointwise::Kind::hard_sigmoid)
    return std::make_unique<HardSigmoidKernel>(context, in[0], function);
  return std::make_unique<PointwiseKernel>(context, in[0], eltwise_of(function));
}

KernelPtr make(const Relu& /*relu*/, const ContextPtr& context, Formats in) {
  using enum dnnl::algorithm;
  const Eltwise relu{eltwise_relu, eltwise_relu_use_dst_for_bwd, 0, 0, 0};
  return std::make_unique<PointwiseKernel>(context, in[0], relu);
}

KernelPtr make(const Add& add, const ContextPtr& context, Formats in) {
  return std::make_unique<AddKernel>(context, in[0], in[1], add.activation == Activation::relu);
}

}  // namespace lockstep::ops::onednn
