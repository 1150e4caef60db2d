// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

/// oneDNN's algorithms for a function and its derivative.
struct Eltwise {
  dnnl::algorithm forward;
  dnnl::algorithm backward;  ///< has the same coefficients
  float alpha = 0;
  float beta = 0;

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
    case gelu_tanh: break;
  }
  return {eltwise_gelu_tanh, eltwise_gelu_tanh};
}

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const ContextPtr& context, const Format& in, const Eltwise& function)
      : Kernel({.inputs = {in},
                .output = in,
                .backward_reads_inputs = !function.by_output(),
                .backward_reads_output = function.by_output()}),
        by_output_(function.by_output()) {
    const Desc desc = to_desc(in);
    const PrimitiveParameters setting{context->engine, attributes()};
    const auto make = [&](dnnl::algorithm algorithm) {
      return make_desc<dnnl::eltwise_forward>(setting, dnnl::prop_kind::forward_training, algorithm, desc, desc,
                                              function.alpha, function.beta);
    };
    const auto forward = make(function.forward);
    forward_ = Primitive(context, dnnl::eltwise_forward(forward), forward.scratchpad_desc(),
                         {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}});
    const auto backward = make_backward_desc<dnnl::eltwise_backward>(
        setting, make(function.backward), function.backward, desc, desc, desc, function.alpha, function.beta);
    backward_ = Primitive(
        context, dnnl::eltwise_backward(backward), backward.scratchpad_desc(),
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

}  // namespace

std::unique_ptr<Kernel> make(const Pointwise& function, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<PointwiseKernel>(context, in[0], eltwise_of(function));
}

}  // namespace lockstep::ops::onednn
