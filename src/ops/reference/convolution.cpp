// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "ops/reference/activation.hpp"
#include "ops/reference/gemm.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

/// Convolution of one image at a time as a product with its unrolled windows ("im2col"): row (channel, ky, kx) of the
/// unrolled matrix holds what that weight meets at every output position, zero where it meets padding.
template <typename T>
class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const Format& in, const Convolution& shape)
      : Kernel({.inputs = {in},
                .output = output_of(shape, in),
                .backward_reads_output = shape.activation != Activation::none}),
        in_(in.shape),
        shape_(shape),
        out_(traits().output),
        windows_(static_cast<std::size_t>(window() * positions())) {}

  void forward(const Arguments& call) override {
    const Matrix<const T> weights = weight_matrix(static_cast<const T*>(call.parameters[0]));
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      T* out = static_cast<T*>(call.output) + n * out_image();
      for (std::int64_t c = 0; c < shape_.out_channels; ++c) {
        const T bias = shape_.bias ? static_cast<const T*>(call.parameters[1])[c] : T{0};
        std::fill_n(out + c * positions(), positions(), bias);
      }
      unroll(static_cast<const T*>(call.inputs[0]) + n * in_image());
      gemm_.add_product(weights, window_matrix(), {out, shape_.out_channels, positions(), positions()});
    }
    activate(shape_.activation, static_cast<T*>(call.output), out_.shape.count());
  }

  void backward(const Arguments& call) override {
    T* gradient = static_cast<T*>(call.output_gradient);
    activate_backward(shape_.activation, static_cast<const T*>(call.output), gradient, out_.shape.count());
    backward_parameters(call, gradient);
    if (call.input_gradients[0] != nullptr) backward_input(call, gradient);
  }

 private:
  void backward_parameters(const Arguments& call, const T* gradient) {
    T* weights = static_cast<T*>(call.parameter_gradients[0]);
    std::fill_n(weights, shape_.out_channels * window(), T{0});
    T* bias = shape_.bias ? static_cast<T*>(call.parameter_gradients[1]) : nullptr;
    if (bias != nullptr) std::fill_n(bias, shape_.out_channels, T{0});
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      const T* image = gradient + n * out_image();
      unroll(static_cast<const T*>(call.inputs[0]) + n * in_image());
      gemm_.add_product({image, shape_.out_channels, positions(), positions()}, window_matrix().transposed(),
                        {weights, shape_.out_channels, window(), window()});
      if (bias != nullptr) add_sums(image, bias);
    }
  }

  void backward_input(const Arguments& call, const T* gradient) {
    const Matrix<const T> weights = weight_matrix(static_cast<const T*>(call.parameters[0]));
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      std::fill(windows_.begin(), windows_.end(), T{0});
      gemm_.add_product(weights.transposed(),
                        {gradient + n * out_image(), shape_.out_channels, positions(), positions()},
                        {windows_.data(), window(), positions(), positions()});
      roll(static_cast<T*>(call.input_gradients[0]) + n * in_image());
    }
  }

  void add_sums(const T* image, T* bias) const {
    for (std::int64_t c = 0; c < shape_.out_channels; ++c) {
      for (std::int64_t i = 0; i < positions(); ++i) bias[c] += image[c * positions() + i];
    }
  }

  void unroll(const T* image) {
    std::fill(windows_.begin(), windows_.end(), T{0});
    visit([&](std::int64_t unrolled, std::int64_t pixel) {
      windows_[static_cast<std::size_t>(unrolled)] = image[pixel];
    });
  }

  /// Adds each unrolled element to the pixel it came from.
  void roll(T* image) const {
    std::fill_n(image, in_image(), T{0});
    visit([&](std::int64_t unrolled, std::int64_t pixel) {
      image[pixel] += windows_[static_cast<std::size_t>(unrolled)];
    });
  }

  /// Calls `f(index in the unrolled matrix, index in the image)` for every pair that padding does not cut off.
  template <typename F>
  void visit(const F& f) const {
    const std::int64_t k = shape_.kernel;
    for (std::int64_t row = 0; row < window(); ++row) {
      const std::int64_t channel = row / (k * k);
      const Range ys = inside(row / k % k, in_.height, out_.shape.height);
      const Range xs = inside(row % k, in_.width, out_.shape.width);
      for (std::int64_t y = ys.begin; y < ys.end; ++y) {
        const std::int64_t from = (channel * in_.height + y * shape_.stride + ys.shift) * in_.width + xs.shift;
        const std::int64_t to = row * positions() + y * out_.shape.width;
        for (std::int64_t x = xs.begin; x < xs.end; ++x) f(to + x, from + x * shape_.stride);
      }
    }
  }

  /// Output positions o whose input position o·stride + shift lies inside the image.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t shift;
  };
  [[nodiscard]] Range inside(std::int64_t offset, std::int64_t in_extent, std::int64_t out_extent) const {
    const std::int64_t shift = offset - shape_.padding;
    const std::int64_t begin = shift >= 0 ? 0 : (-shift + shape_.stride - 1) / shape_.stride;
    const std::int64_t end = shift >= in_extent ? 0 : (in_extent - 1 - shift) / shape_.stride + 1;
    return {begin, std::min(end, out_extent), shift};
  }

  [[nodiscard]] std::int64_t window() const { return in_.channels * shape_.kernel * shape_.kernel; }
  [[nodiscard]] std::int64_t positions() const { return out_.shape.height * out_.shape.width; }
  [[nodiscard]] std::int64_t in_image() const { return in_.channels * in_.height * in_.width; }
  [[nodiscard]] std::int64_t out_image() const { return shape_.out_channels * positions(); }
  [[nodiscard]] Matrix<const T> weight_matrix(const T* weights) const {
    return {weights, shape_.out_channels, window(), window()};
  }
  [[nodiscard]] Matrix<const T> window_matrix() const { return {windows_.data(), window(), positions(), positions()}; }

  Shape in_;
  Convolution shape_;
  Format out_;
  std::vector<T> windows_;
  Gemm<T> gemm_;
};

}  // namespace

std::unique_ptr<Kernel> make(const Convolution& shape, std::span<const Format> in) {
  return make_for<ConvolutionKernel>(in, shape);
}

}  // namespace lockstep::ops::reference
