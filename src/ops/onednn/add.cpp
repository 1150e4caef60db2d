// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/reordered.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

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
    forward_ = Primitive(context, dnnl::binary(desc), desc.scratchpad_desc(),
                         {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, first}});
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

std::unique_ptr<Kernel> make(const Add& add, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<AddKernel>(context, in[0], in[1], add.activation == Activation::relu);
}

}  // namespace lockstep::ops::onednn
