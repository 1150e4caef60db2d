// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/formulas/functions.hpp"
#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"
namespace lockstep::ops::reference {
namespace {

bool derived_by_output(const Pointwise& op) {
  return with_function<float>(op, [](const auto& function) { return function.by_output; });
}

template <typename T>
class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const Format& in, const Pointwise& function)
      : Kernel({.inputs = {in},
                .output = in,
                .backward_reads_inputs = !derived_by_output(function),
                .backward_reads_output = derived_by_output(function)}),
        function_(function),
        count_(in.shape.count()) {}

  void forward(const Arguments& call) override {
    const T* x = static_cast<const T*>(call.inputs[0]);
    T* y = static_cast<T*>(call.output);
    with_function<T>(function_, [&](const auto function) {
      for (std::int64_t i = 0; i < count_; ++i) y[i] = function.value(x[i]);
    });
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    with_function<T>(function_, [&](const auto function) {
      const T* at = static_cast<const T*>(function.by_output ? call.output : call.inputs[0]);
      for (std::int64_t i = 0; i < count_; ++i) dx[i] = dy[i] * function.derivative(at[i]);
    });
  }

 private:
  Pointwise function_;
  std::int64_t count_;
};

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

KernelPtr make(const Pointwise& function, Formats in) { return make_for<PointwiseKernel>(in, function); }

KernelPtr make(const Relu& relu, Formats in) { return make_for<ReluKernel>(in, relu); }

KernelPtr make(const Add& add, Formats in) { return make_for<AddKernel>(in, add); }

}  // namespace lockstep::ops::reference
