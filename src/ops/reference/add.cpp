// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class AddKernel final : public Kernel {
 public:
  AddKernel(const Format& a, const Add& add)
      : Kernel({.inputs = {a, a},
                .output = a,
                .backward_reads_inputs = false,
                .backward_reads_output = add.activation != Activation::none,
                .in_place_gradient = 0}),
        activation_(add.activation),
        out_(a) {}

  void forward(const Arguments& call) override {
    const T* a = static_cast<const T*>(call.inputs[0]);
    const T* b = static_cast<const T*>(call.inputs[1]);
    T* out = static_cast<T*>(call.output);
    for (std::int64_t i = 0; i < out_.shape.count(); ++i) out[i] = a[i] + b[i];
    activate(activation_, out, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(activation_, static_cast<const T*>(call.output), gradient, out_.shape.count());
    for (void* input_gradient : call.input_gradients) {
      if (input_gradient == nullptr || input_gradient == gradient) continue;
      std::copy_n(gradient, out_.shape.count(), static_cast<T*>(input_gradient));
    }
  }

 private:
  Activation activation_;
  Format out_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Add& add, std::span<const Format> in) { return make_for<AddKernel>(in, add); }

}  // namespace lockstep::ops::reference
