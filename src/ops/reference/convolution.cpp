// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/activation.hpp"
#include "ops/reference/gemm.hpp"
#include "ops/reference/operators.hpp"
#include "ops/reference/unrolled.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

/// Computes a convolution one group of one image at a time, as a product of the weights with the unrolled windows.
template <typename T>
class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const Format& in, const Convolution& shape)
      : Kernel({.inputs = {in},
                .output = output_of(shape, in),
                .backward_reads_output = shape.activation != Activation::none}),
        shape_(shape),
        out_(traits().output.shape),
        windows_({1, in.shape.channels / shape.groups, in.shape.height, in.shape.width}, out_,
                 {shape.kernel, shape.stride, shape.padding, shape.dilation}) {}

  void forward(const Arguments& call) override {
    T* out = static_cast<T*>(call.output);
    std::fill_n(out, out_.count(), T{0});
    for_each_group(out_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      windows_.unroll(static_cast<const T*>(call.inputs[0]) + part * windows_.image_size());
      gemm_.add_product(weights(static_cast<const T*>(call.parameters[0]), group), windows_.matrix(),
                        result(out, part));
    });
    if (shape_.bias) add_to_channels(out, out_, static_cast<const T*>(call.parameters[1]));
    activate(shape_.activation, out, out_.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(shape_.activation, static_cast<const T*>(call.output), gradient, out_.count());
    if (shape_.bias) sum_channels(gradient, out_, static_cast<T*>(call.parameter_gradients[1]));
    backward_weights(call, gradient);
    if (call.input_gradients[0] != nullptr) backward_input(call, gradient);
  }

 private:
  void backward_weights(const Arguments& call, const T* gradient) {
    T* sums = static_cast<T*>(call.parameter_gradients[0]);
    std::fill_n(sums, out_.channels * windows_.rows(), T{0});
    for_each_group(out_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      windows_.unroll(static_cast<const T*>(call.inputs[0]) + part * windows_.image_size());
      gemm_.add_product(result(gradient, part), windows_.matrix().transposed(), weights(sums, group));
    });
  }

  void backward_input(const Arguments& call, const T* gradient) {
    for_each_group(out_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      gemm_.add_product(weights(static_cast<const T*>(call.parameters[0]), group).transposed(), result(gradient, part),
                        windows_.cleared());
      windows_.roll(static_cast<T*>(call.input_gradients[0]) + part * windows_.image_size());
    });
  }

  [[nodiscard]] std::int64_t group_channels() const { return out_.channels / shape_.groups; }
  template <typename U>
  [[nodiscard]] Matrix<U> weights(U* all, std::int64_t group) const {
    return matrix_at(all, group, group_channels(), windows_.rows());
  }
  template <typename U>
  [[nodiscard]] Matrix<U> result(U* all, std::int64_t part) const {
    return matrix_at(all, part, group_channels(), windows_.columns());
  }

  Convolution shape_;
  Shape out_;
  Unrolled<T> windows_;
  Gemm<T> gemm_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Convolution& shape, std::span<const Format> in) {
  return make_for<ConvolutionKernel>(in, shape);
}

}  // namespace lockstep::ops::reference
