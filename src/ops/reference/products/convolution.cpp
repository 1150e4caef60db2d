// SPDX-License-Identifier: Apache-2.0
#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"
#include "ops/reference/products/unrolled.hpp"

namespace lockstep::ops::reference {
namespace {

/// Computes one group of one image at a time, by products of the weights with unrolled windows. A convolution has its
/// windows in the input. A transposed one is the backward pass of the convolution that maps its result to its input, so
/// that its windows are in the result. The other tensor has a row for each channel.
template <typename T, typename Kind>
class WindowedKernel final : public Kernel {
 public:
  WindowedKernel(const Format& in, const Kind& shape)
      : Kernel({.inputs = {in},
                .output = output_of(shape, in),
                .backward_reads_output = shape.activation != Activation::none}),
        shape_(shape),
        out_(traits().output.shape),
        image_(transposed ? out_ : in.shape),
        rows_(transposed ? in.shape : out_),
        windows_({1, image_.channels / shape.groups, image_.height, image_.width}, rows_,
                 {shape.kernel, shape.stride, shape.padding, shape.dilation}) {}

  void forward(const Arguments& call) override {
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* w = static_cast<const T*>(call.parameters[0]);
    T* out = static_cast<T*>(call.output);
    if (transposed) {
      roll_products(w, x, out);
    } else {
      std::fill_n(out, out_.count(), T{0});
      for_each_group(rows_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
        windows_.unroll(x + part * windows_.image_size());
        gemm_.add_product(weights(w, group), windows_.matrix(), rows(out, part));
      });
    }
    if (shape_.bias) add_to_channels(out, out_, static_cast<const T*>(call.parameters[1]));
    activate(shape_.activation, out, out_.count());
  }

  void backward(const Arguments& call) override {
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T* w = static_cast<const T*>(call.parameters[0]);
    T* dy = static_cast<T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    T* dw = static_cast<T*>(call.parameter_gradients[0]);
    activate_backward(shape_.activation, static_cast<const T*>(call.output), dy, out_.count());
    if (shape_.bias) sum_channels(dy, out_, static_cast<T*>(call.parameter_gradients[1]));
    std::fill_n(dw, rows_.channels * windows_.rows(), T{0});
    if (transposed && dx != nullptr) std::fill_n(dx, rows_.count(), T{0});
    for_each_group(rows_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      windows_.unroll((transposed ? dy : x) + part * windows_.image_size());
      gemm_.add_product(rows<const T>(transposed ? x : dy, part), windows_.matrix().transposed(), weights(dw, group));
      if (transposed && dx != nullptr) gemm_.add_product(weights(w, group), windows_.matrix(), rows(dx, part));
    });
    if (!transposed && dx != nullptr) roll_products(w, dy, dx);
  }

 private:
  static constexpr bool transposed = std::is_same_v<Kind, TransposedConvolution>;

  /// Overwrites an image with the products of weights and rows, each element of which belongs to a window.
  void roll_products(const T* w, const T* from, T* image) {
    for_each_group(rows_.batch, shape_.groups, [&](std::int64_t part, std::int64_t group) {
      gemm_.add_product(weights(w, group).transposed(), rows(from, part), windows_.cleared());
      windows_.roll(image + part * windows_.image_size());
    });
  }

  [[nodiscard]] std::int64_t group_channels() const { return rows_.channels / shape_.groups; }
  template <typename U>
  [[nodiscard]] Matrix<U> weights(U* all, std::int64_t group) const {
    return matrix_at(all, group, group_channels(), windows_.rows());
  }
  template <typename U>
  [[nodiscard]] Matrix<U> rows(U* all, std::int64_t part) const {
    return matrix_at(all, part, group_channels(), windows_.columns());
  }

  Kind shape_;
  Shape out_;
  Shape image_;
  Shape rows_;
  Unrolled<T> windows_;
  Gemm<T> gemm_;
};

template <typename T>
using ConvolutionKernel = WindowedKernel<T, Convolution>;
template <typename T>
using TransposedConvolutionKernel = WindowedKernel<T, TransposedConvolution>;

}  // namespace

KernelPtr make(const Convolution& shape, Formats in) { return make_for<ConvolutionKernel>(in, shape); }

KernelPtr make(const TransposedConvolution& shape, Formats in) {
  return make_for<TransposedConvolutionKernel>(in, shape);
}

}  // namespace lockstep::ops::reference
