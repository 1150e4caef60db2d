// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"
namespace lockstep::ops::reference {

namespace {

// Each function of T has its value and its derivative. The derivative takes the result if `by_output`, otherwise the
// argument. A NaN stays a NaN, so that a diverged loss is visible.

template <typename T>
struct Relu6Function {
  static constexpr bool by_output = true;
  T value(T x) const { return x < T{0} ? T{0} : (x > T{6} ? T{6} : x); }
  T derivative(T y) const { return y > T{0} && y < T{6} ? T{1} : T{0}; }
};

template <typename T>
struct LeakyReluFunction {
  static constexpr bool by_output = true;  // the result has the argument's sign, because the slope is not negative
  T slope;
  T value(T x) const { return x > T{0} ? x : slope * x; }
  T derivative(T y) const { return y > T{0} ? T{1} : slope; }
};

template <typename T>
struct SigmoidFunction {
  static constexpr bool by_output = true;
  T value(T x) const { return T{1} / (T{1} + std::exp(-x)); }
  T derivative(T y) const { return y * (T{1} - y); }
};

template <typename T>
struct TanhFunction {
  static constexpr bool by_output = true;
  T value(T x) const { return std::tanh(x); }
  T derivative(T y) const { return T{1} - y * y; }
};

template <typename T>
struct SiluFunction {
  static constexpr bool by_output = false;
  T value(T x) const { return x / (T{1} + std::exp(-x)); }
  T derivative(T x) const {
    const T s = T{1} / (T{1} + std::exp(-x));
    return s * (T{1} + x * (T{1} - s));
  }
};

template <typename T>
struct HardSwishFunction {
  static constexpr bool by_output = false;
  T value(T x) const { return x * Relu6Function<T>{}.value(x + T{3}) / T{6}; }
  T derivative(T x) const { return x <= T{-3} ? T{0} : (x < T{3} ? x / T{3} + T{0.5} : T{1}); }
};

template <typename T>
struct GeluFunction {
  static constexpr bool by_output = false;
  T value(T x) const { return x * distribution(x); }
  T derivative(T x) const {
    constexpr T density_at_zero = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
    return distribution(x) + x * density_at_zero * std::exp(x * x / T{-2});
  }
  static T distribution(T x) { return T{0.5} * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>)); }
};

template <typename T>
struct GeluTanhFunction {
  static constexpr bool by_output = false;
  static constexpr T cubic = static_cast<T>(0.044715);
  static constexpr T scale = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
  T value(T x) const { return T{0.5} * x * (T{1} + tanh_of(x)); }
  T derivative(T x) const {
    const T t = tanh_of(x);
    const T inner = scale * (T{1} + 3 * cubic * x * x);
    return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * inner;
  }
  static T tanh_of(T x) { return std::tanh(scale * (x + cubic * x * x * x)); }
};

/// Calls `f` with the function, once instead of for each element.
template <typename T, typename F>
auto with_function(const Pointwise& op, const F& f) {
  using enum Pointwise::Kind;
  switch (op.kind) {
    case relu6: return f(Relu6Function<T>{});
    case leaky_relu: return f(LeakyReluFunction<T>{static_cast<T>(op.slope)});
    case silu: return f(SiluFunction<T>{});
    case hard_swish: return f(HardSwishFunction<T>{});
    case sigmoid: return f(SigmoidFunction<T>{});
    case tanh: return f(TanhFunction<T>{});
    case gelu: return f(GeluFunction<T>{});
    case gelu_tanh: break;
  }
  return f(GeluTanhFunction<T>{});
}

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

}  // namespace

std::unique_ptr<Kernel> make(const Pointwise& function, std::span<const Format> in) {
  return make_for<PointwiseKernel>(in, function);
}

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
