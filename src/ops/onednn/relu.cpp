// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

class ReluKernel final : public Kernel {
 public:
  ReluKernel(const ContextPtr& context, const Format& in)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false, .in_place_gradient = 0}),
        backward_(context, to_desc(in)) {
    const Desc desc = to_desc(in);
    const auto forward =
        make_desc<dnnl::eltwise_forward>(Setting{context->engine, attributes()}, dnnl::prop_kind::forward_training,
                                         dnnl::algorithm::eltwise_relu, desc, desc, 0.0F);
    forward_ = Primitive(context, dnnl::eltwise_forward(forward), forward.scratchpad_desc(),
                         {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}});
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override {
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] != nullptr) {
      backward_.run(call.output, call.output_gradient, call.input_gradients[0]);
    }
  }

 private:
  Primitive forward_;
  ReluBackward backward_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Relu& /*relu*/, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<ReluKernel>(context, in[0]);
}

}  // namespace lockstep::ops::onednn
