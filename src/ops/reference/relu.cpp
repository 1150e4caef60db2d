// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

template <typename T>
class Relu final : public Operator {
 public:
  explicit Relu(const Format& in) : out_(in) { check_shape(in.shape); }

  [[nodiscard]] const Format& output() const override { return out_; }

  void forward(const Forward& call) override {
    arity.check(call);
    T* out = static_cast<T*>(call.output);
    std::copy_n(static_cast<const T*>(call.inputs[0]), out_.shape.count(), out);
    activate(Activation::relu, out, out_.shape.count());
  }

  void backward(const Backward& call) override {
    arity.check(call);
    if (call.input_gradients[0] == nullptr) return;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    if (dx != call.output_gradient) std::copy_n(static_cast<const T*>(call.output_gradient), out_.shape.count(), dx);
    activate_backward(Activation::relu, static_cast<const T*>(call.output), dx, out_.shape.count());
  }

 private:
  static constexpr Arity arity{};
  Format out_;
};

}  // namespace

std::unique_ptr<Operator> make_relu(const Format& in) { return make_for<Operator, Relu>(in, in); }

}  // namespace lockstep::ops::reference
