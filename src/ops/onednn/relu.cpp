// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

class Relu final : public Operator {
 public:
  Relu(const ContextPtr& context, const Format& in) : out_(in), backward_(context, to_desc(in)) {
    const Desc desc = to_desc(in);
    const auto forward =
        make_desc<dnnl::eltwise_forward>(Setting{context->engine, attributes()}, dnnl::prop_kind::forward_training,
                                         dnnl::algorithm::eltwise_relu, desc, desc, 0.0F);
    forward_ = Primitive(context, dnnl::eltwise_forward(forward), forward.scratchpad_desc(),
                         {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}});
  }

  [[nodiscard]] const Format& output() const override { return out_; }
  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass == Pass::forward ? forward_.kernel() : backward_.kernel();
  }

  void forward(const Forward& call) override {
    arity.check(call);
    forward_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
  }

  void backward(const Backward& call) override {
    arity.check(call);
    if (call.input_gradients[0] != nullptr) {
      backward_.run(call.output, call.output_gradient, call.input_gradients[0]);
    }
  }

 private:
  static constexpr Arity arity{};
  Format out_;
  Primitive forward_;
  ReluBackward backward_;
};

}  // namespace

std::unique_ptr<Operator> make_relu(const ContextPtr& context, const Format& in) {
  return std::make_unique<Relu>(context, in);
}

}  // namespace lockstep::ops::onednn
