// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/activation.hpp"
#include "ops/reference/gemm.hpp"
#include "ops/reference/operators.hpp"
#include "ops/reference/unrolled.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

/// Computes the backward pass of the convolution that maps the result to the input, one group of one image at a time.
template <typename T>
class TransposedConvolutionKernel final : public Kernel {
 public:
  TransposedConvolutionKernel(const Format& in, const TransposedConvolution& shape)
      : Kernel({.inputs = {in},
                .output = output_of(shape, in),
                .backward_reads_output = shape.activation != Activation::none}),
        shape_(shape),
        in_(in.shape),
        out_(traits().output.shape),
        windows_({1, out_.channels / shape.groups, out_.height, out_.width}, in_,
                 {shape.kernel, shape.stride, shape.padding, shape.dilation}) {}

  void forward(const Arguments& call) override {
    T* out = static_cast<T*>(call.output);
    for_each_group(in_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      gemm_.add_product(weights(static_cast<const T*>(call.parameters[0]), group).transposed(),
                        source(static_cast<const T*>(call.inputs[0]), part), windows_.cleared());
      windows_.roll(out + part * windows_.image_size());
    });
    if (shape_.bias) add_to_channels(out, out_, static_cast<const T*>(call.parameters[1]));
    activate(shape_.activation, out, out_.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(shape_.activation, static_cast<const T*>(call.output), gradient, out_.count());
    if (shape_.bias) sum_channels(gradient, out_, static_cast<T*>(call.parameter_gradients[1]));
    T* sums = static_cast<T*>(call.parameter_gradients[0]);
    std::fill_n(sums, in_.channels * windows_.rows(), T{0});
    T* dx = static_cast<T*>(call.input_gradients[0]);
    if (dx != nullptr) std::fill_n(dx, in_.count(), T{0});
    for_each_group(in_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      windows_.unroll(gradient + part * windows_.image_size());
      gemm_.add_product(source(static_cast<const T*>(call.inputs[0]), part), windows_.matrix().transposed(),
                        weights(sums, group));
      if (dx == nullptr) return;
      gemm_.add_product(weights(static_cast<const T*>(call.parameters[0]), group), windows_.matrix(), source(dx, part));
    });
  }

 private:
  [[nodiscard]] std::int64_t group_channels() const { return in_.channels / shape_.groups; }
  template <typename U>
  [[nodiscard]] Matrix<U> weights(U* all, std::int64_t group) const {
    return matrix_at(all, group, group_channels(), windows_.rows());
  }
  template <typename U>
  [[nodiscard]] Matrix<U> source(U* all, std::int64_t part) const {
    return matrix_at(all, part, group_channels(), windows_.columns());
  }

  TransposedConvolution shape_;
  Shape in_;
  Shape out_;
  Unrolled<T> windows_;
  Gemm<T> gemm_;
};

}  // namespace

std::unique_ptr<Kernel> make(const TransposedConvolution& shape, std::span<const Format> in) {
  return make_for<TransposedConvolutionKernel>(in, shape);
}

}  // namespace lockstep::ops::reference
