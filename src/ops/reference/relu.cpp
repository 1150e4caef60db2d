// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class ReluKernel final : public Kernel {
 public:
  ReluKernel(const Format& in, const Relu& /*relu*/)
      : Kernel({.inputs = {in}, .output = in, .backward_reads_inputs = false, .in_place_gradient = 0}), out_(in) {}

  void forward(const Arguments& call) override {
    T* out = static_cast<T*>(call.output);
    std::copy_n(static_cast<const T*>(call.inputs[0]), out_.shape.count(), out);
    activate(Activation::relu, out, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    if (dx != call.output_gradient) std::copy_n(static_cast<const T*>(call.output_gradient), out_.shape.count(), dx);
    activate_backward(Activation::relu, static_cast<const T*>(call.output), dx, out_.shape.count());
  }

 private:
  Format out_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Relu& relu, std::span<const Format> in) { return make_for<ReluKernel>(in, relu); }

}  // namespace lockstep::ops::reference
