// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"
#include "ops/reference/products/gemm.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

/// Computes Y = activation(X·Wᵀ + b) with X: batch × features, W: out × features.
template <typename T>
class LinearKernel final : public Kernel {
 public:
  LinearKernel(const Format& in, const Linear& linear)
      : Kernel({.inputs = {in},
                .output = output_of(linear, in),
                .backward_reads_output = linear.activation != Activation::none}),
        batch_(in.shape.batch),
        features_(in.shape.channels * in.shape.height * in.shape.width),
        out_channels_(linear.out_features),
        activation_(linear.activation),
        out_(traits().output) {}

  void forward(const Arguments& call) override {
    T* out = static_cast<T*>(call.output);
    const T* bias = static_cast<const T*>(call.parameters[1]);
    for (std::int64_t n = 0; n < batch_; ++n) std::copy_n(bias, out_channels_, out + n * out_channels_);
    gemm_.add_product(batch_by(features_, static_cast<const T*>(call.inputs[0])),
                      weights(static_cast<const T*>(call.parameters[0])).transposed(), batch_by(out_channels_, out));
    activate(activation_, out, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(activation_, static_cast<const T*>(call.output), gradient, out_.shape.count());
    const Matrix<const T> dy = batch_by<const T>(out_channels_, gradient);

    T* dw = static_cast<T*>(call.parameter_gradients[0]);
    std::fill_n(dw, out_channels_ * features_, T{0});
    gemm_.add_product(dy.transposed(), batch_by(features_, static_cast<const T*>(call.inputs[0])), weights(dw));

    T* db = static_cast<T*>(call.parameter_gradients[1]);
    std::fill_n(db, out_channels_, T{0});
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t c = 0; c < out_channels_; ++c) db[c] += *dy.at(n, c);
    }

    if (call.input_gradients[0] == nullptr) return;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(dx, batch_ * features_, T{0});
    gemm_.add_product(dy, weights(static_cast<const T*>(call.parameters[0])), batch_by(features_, dx));
  }

 private:
  template <typename U>
  [[nodiscard]] Matrix<U> batch_by(std::int64_t columns, U* data) const {
    return {data, batch_, columns, columns};
  }
  template <typename U>
  [[nodiscard]] Matrix<U> weights(U* data) const {
    return {data, out_channels_, features_, features_};
  }

  std::int64_t batch_;
  std::int64_t features_;
  std::int64_t out_channels_;
  Activation activation_;
  Format out_;
  Gemm<T> gemm_;
};

}  // namespace

KernelPtr make(const Linear& linear, Formats in) { return make_for<LinearKernel>(in, linear); }

}  // namespace lockstep::ops::reference
