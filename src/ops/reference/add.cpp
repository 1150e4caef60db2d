// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class Add final : public Operator {
 public:
  Add(Format a, Activation activation) : activation_(activation), out_(std::move(a)) {}

  [[nodiscard]] const Format& output() const override { return out_; }

  void forward(const Forward& call) override {
    arity.check(call);
    const T* a = static_cast<const T*>(call.inputs[0]);
    const T* b = static_cast<const T*>(call.inputs[1]);
    T* out = static_cast<T*>(call.output);
    for (std::int64_t i = 0; i < out_.shape.count(); ++i) out[i] = a[i] + b[i];
    activate(activation_, out, out_.shape.count());
  }

  void backward(const Backward& call) override {
    arity.check(call);
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(activation_, static_cast<const T*>(call.output), gradient, out_.shape.count());
    for (void* input_gradient : call.input_gradients) {
      if (input_gradient == nullptr || input_gradient == gradient) continue;
      std::copy_n(gradient, out_.shape.count(), static_cast<T*>(input_gradient));
    }
  }

 private:
  static constexpr Arity arity{.inputs = 2};
  Activation activation_;
  Format out_;
};

}  // namespace

std::unique_ptr<Operator> make_add(const Format& a, const Format& b, Activation activation) {
  check_same(a, b);
  return make_for<Operator, Add>(a, a, activation);
}

}  // namespace lockstep::ops::reference
