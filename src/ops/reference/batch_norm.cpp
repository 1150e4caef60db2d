// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/reference/activation.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {

namespace {

/// y = activation(γ·x̂ + β) with x̂ = (x − mean)·istd per channel.
/// Saved: mean and inverse standard deviation of each channel.
template <typename T>
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const Format& in, const BatchNorm& shape)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {2 * in.shape.channels * size_of(in.dtype)},
                .backward_reads_output = shape.activation != Activation::none}),
        shape_(shape),
        out_(in) {}

  void forward(const Arguments& call) override { normalise(call, true); }
  void infer(const Arguments& call) override { normalise(call, false); }

  void normalise(const Arguments& call, bool training) {
    const T* x = static_cast<const T*>(call.inputs[0]);
    T* y = static_cast<T*>(call.output);
    for (std::int64_t c = 0; c < channels() && samples() > 0; ++c) {
      const Statistics s = training ? measure(x, c) : running(call, c);
      const T istd = T{1} / std::sqrt(s.variance + static_cast<T>(shape_.epsilon));
      if (training) {
        static_cast<T*>(call.saved)[c] = s.mean;
        static_cast<T*>(call.saved)[channels() + c] = istd;
        update_running(call, c, s);
      }
      const T gamma = static_cast<const T*>(call.parameters[0])[c];
      const T beta = static_cast<const T*>(call.parameters[1])[c];
      for_each(c, [&](std::int64_t i) { y[i] = gamma * ((x[i] - s.mean) * istd) + beta; });
    }
    activate(shape_.activation, y, out_.shape.count());
  }

  void backward(const Arguments& call) override {
    T* dy = static_cast<T*>(call.output_gradient);
    activate_backward(shape_.activation, static_cast<const T*>(call.output), dy, out_.shape.count());
    for (std::int64_t c = 0; c < channels(); ++c) backward_channel(call, dy, c);
  }

 private:
  struct Statistics {
    T mean;
    T variance;  ///< biased
  };

  void backward_channel(const Arguments& call, const T* dy, std::int64_t c) const {
    const T* x = static_cast<const T*>(call.inputs[0]);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    T sum_dy = 0;
    T sum_dy_x = 0;
    if (samples() > 0) {
      const T mean = static_cast<const T*>(call.saved)[c];
      const T istd = static_cast<const T*>(call.saved)[channels() + c];
      for_each(c, [&](std::int64_t i) {
        sum_dy += dy[i];
        sum_dy_x += dy[i] * ((x[i] - mean) * istd);
      });
      const T scale = static_cast<const T*>(call.parameters[0])[c] * istd;
      const T mean_dy = sum_dy / static_cast<T>(samples());
      const T mean_dy_x = sum_dy_x / static_cast<T>(samples());
      if (dx != nullptr) {
        for_each(c, [&](std::int64_t i) { dx[i] = scale * (dy[i] - mean_dy - (x[i] - mean) * istd * mean_dy_x); });
      }
    }
    static_cast<T*>(call.parameter_gradients[0])[c] = sum_dy_x;
    static_cast<T*>(call.parameter_gradients[1])[c] = sum_dy;
  }

  [[nodiscard]] Statistics measure(const T* x, std::int64_t c) const {
    T sum = 0;
    for_each(c, [&](std::int64_t i) { sum += x[i]; });
    const T mean = sum / static_cast<T>(samples());
    T squares = 0;
    for_each(c, [&](std::int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    return {mean, squares / static_cast<T>(samples())};
  }

  [[nodiscard]] Statistics running(const Arguments& call, std::int64_t c) const {
    return {static_cast<const T*>(call.state[0])[c], static_cast<const T*>(call.state[1])[c]};
  }

  void update_running(const Arguments& call, std::int64_t c, const Statistics& s) const {
    const T momentum = static_cast<T>(shape_.momentum);
    // One sample has no unbiased variance; its biased one, 0, is used.
    const T unbiased = s.variance * static_cast<T>(samples()) / static_cast<T>(samples() > 1 ? samples() - 1 : 1);
    T& mean = static_cast<T*>(call.state[0])[c];
    T& variance = static_cast<T*>(call.state[1])[c];
    mean = (T{1} - momentum) * mean + momentum * s.mean;
    variance = (T{1} - momentum) * variance + momentum * unbiased;
  }

  /// Calls `f(index)` for every element of a channel, image by image.
  template <typename F>
  void for_each(std::int64_t channel, const F& f) const {
    const std::int64_t plane = out_.shape.height * out_.shape.width;
    for (std::int64_t n = 0; n < out_.shape.batch; ++n) {
      const std::int64_t first = (n * channels() + channel) * plane;
      for (std::int64_t i = first; i < first + plane; ++i) f(i);
    }
  }

  [[nodiscard]] std::int64_t channels() const { return out_.shape.channels; }
  /// Values that a channel's statistics are taken over.
  [[nodiscard]] std::int64_t samples() const { return out_.shape.batch * out_.shape.height * out_.shape.width; }

  BatchNorm shape_;
  Format out_;
};

}  // namespace

std::unique_ptr<Kernel> make(const BatchNorm& shape, std::span<const Format> in) {
  return make_for<BatchNormKernel>(in, shape);
}

}  // namespace lockstep::ops::reference
