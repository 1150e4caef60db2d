// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

class ReluKernel final : public Kernel {
 public:
  ReluKernel(const ContextPtr& context, const Format& in)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false, .in_place_gradient = 0}),
        forward_(context, to_desc(in)),
        backward_(context, to_desc(in)) {}

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? forward_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override { forward_.run(call.inputs[0], call.output); }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] != nullptr) {
      backward_.run(call.output, call.output_gradient, call.input_gradients[0]);
    }
  }

 private:
  ReluForward forward_;
  ReluBackward backward_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Relu& /*relu*/, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<ReluKernel>(context, in[0]);
}

}  // namespace lockstep::ops::onednn
