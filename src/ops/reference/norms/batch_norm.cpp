// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/formulas/moments.hpp"
#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

std::vector<Format> inputs_of(const BatchNorm& shape, const Format& in) {
  if (shape.residual) return {in, in};
  return {in};
}

/// Computes y = activation(γ·x̂ + β + residual) with x̂ = (x − mean)·istd per channel. With a residual, backward finds
/// the sign of the activation's input from the result; without one, it computes that input again from x. Saved are the
/// mean and the inverse standard deviation of each channel.
template <typename T>
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const Format& in, const BatchNorm& shape)
      : Kernel({.inputs = inputs_of(shape, in),
                .output = in,
                .saved = {2 * in.shape.channels * size_of(in.dtype)},
                .backward_reads_first_input = true,
                .backward_reads_output = shape.residual && shape.activation != Activation::none,
                .recomputable = !shape.residual,
                .takes_two_gradients = shape.residual || shape.activation != Activation::none,
                .in_place_gradient = shape.residual ? 1 : 0,
                .forward_part = shape.synchronized ? 3 * in.shape.channels : 0,
                .backward_part = shape.synchronized ? 3 * in.shape.channels : 0}),
        shape_(shape),
        out_(in) {}

  void measure(const Arguments& call) override {
    for (std::int64_t c = 0; c < channels(); ++c) {
      const Statistics s = measured(static_cast<const T*>(call.inputs[0]), c);
      double* part = call.part + 3 * c;
      part[0] = s.count;
      part[1] = static_cast<double>(s.mean);
      part[2] = s.count * static_cast<double>(s.variance);
    }
  }

  void forward(const Arguments& call) override {
    for (std::int64_t c = 0; c < channels(); ++c) {
      const Moments all = shape_.synchronized ? merged_moments(call.parts, channels(), c) : Moments{};
      const Statistics s = shape_.synchronized ? rounded(all) : measured(static_cast<const T*>(call.inputs[0]), c);
      const T istd = T{1} / std::sqrt(s.variance + static_cast<T>(shape_.epsilon));
      static_cast<T*>(call.saved)[c] = s.mean;
      static_cast<T*>(call.saved)[channels() + c] = istd;
      if (s.count > 0) {
        update_running(static_cast<T*>(call.state[0])[c], static_cast<T*>(call.state[1])[c], shape_.momentum, s.count,
                       shape_.synchronized ? all.mean : static_cast<double>(s.mean),
                       shape_.synchronized ? all.squares / all.count : static_cast<double>(s.variance));
      }
      normalize(call, c, s.mean, istd);
    }
    activate(shape_.activation, static_cast<T*>(call.output), out_.shape.count());
  }

  void infer(const Arguments& call) override {
    for (std::int64_t c = 0; c < channels(); ++c) {
      const Statistics s = running(call, c);
      normalize(call, c, s.mean, T{1} / std::sqrt(s.variance + static_cast<T>(shape_.epsilon)));
    }
    activate(shape_.activation, static_cast<T*>(call.output), out_.shape.count());
  }

  void recompute(const Arguments& call) override {
    for (std::int64_t c = 0; c < channels(); ++c) normalize(call, c, mean(call, c), istd(call, c));
    activate(shape_.activation, static_cast<T*>(call.output), out_.shape.count());
  }

  void measure_backward(const Arguments& call) override {
    const T* dy = gradient_before_activation(call);
    for (std::int64_t c = 0; c < channels(); ++c) {
      const Sums sums = sums_of(call, dy, c);
      double* part = call.part + 3 * c;
      part[0] = static_cast<double>(sums.dy);
      part[1] = static_cast<double>(sums.dy_x);
      part[2] = static_cast<double>(samples());
    }
  }

  void backward(const Arguments& call) override {
    const T* dy = shape_.synchronized ? static_cast<const T*>(call.output_gradient) : gradient_before_activation(call);
    for (std::int64_t c = 0; c < channels(); ++c) backward_channel(call, dy, c);
    if (!shape_.residual) return;
    void* residual = call.input_gradients[1];
    if (residual != nullptr && residual != dy) std::copy_n(dy, out_.shape.count(), static_cast<T*>(residual));
  }

 private:
  struct Statistics {
    double count;
    T mean;
    T variance;  ///< the biased variance
  };
  /// The line that is applied to a channel's values before the residual is added.
  struct Line {
    T mean;
    T istd;
    T gamma;
    T beta;
    [[nodiscard]] T at(T x) const { return gamma * ((x - mean) * istd) + beta; }
  };
  /// The sums over a channel's gradients.
  struct Sums {
    T dy;
    T dy_x;  ///< sum of the products with the normalized values
  };

  void normalize(const Arguments& call, std::int64_t c, T mean, T istd) const {
    const T* x = static_cast<const T*>(call.inputs[0]);
    T* y = static_cast<T*>(call.output);
    const Line line = line_of(call, c, mean, istd);
    for_each(c, [&](std::int64_t i) { y[i] = line.at(x[i]); });
    if (!shape_.residual) return;
    const T* residual = static_cast<const T*>(call.inputs[1]);
    for_each(c, [&](std::int64_t i) { y[i] += residual[i]; });
  }

  /// Computes, in place, the gradient before the activation.
  T* gradient_before_activation(const Arguments& call) const {
    T* dy = static_cast<T*>(call.output_gradient);
    if (const T* second = static_cast<const T*>(call.second_output_gradient); second != nullptr)
      for (std::int64_t i = 0; i < out_.shape.count(); ++i) dy[i] += second[i];
    if (shape_.activation == Activation::none) return dy;
    if (shape_.residual) {
      activate_backward(shape_.activation, static_cast<const T*>(call.output), dy, out_.shape.count());
      return dy;
    }
    const T* x = static_cast<const T*>(call.inputs[0]);
    for (std::int64_t c = 0; c < channels(); ++c) {
      const Line line = line_of(call, c, mean(call, c), istd(call, c));
      for_each(c, [&](std::int64_t i) { dy[i] = passes(shape_.activation, line.at(x[i])) ? dy[i] : T{0}; });
    }
    return dy;
  }

  [[nodiscard]] Line line_of(const Arguments& call, std::int64_t c, T mean, T istd) const {
    return {mean, istd, static_cast<const T*>(call.parameters[0])[c], static_cast<const T*>(call.parameters[1])[c]};
  }
  [[nodiscard]] T mean(const Arguments& call, std::int64_t c) const { return static_cast<const T*>(call.saved)[c]; }
  [[nodiscard]] T istd(const Arguments& call, std::int64_t c) const {
    return static_cast<const T*>(call.saved)[channels() + c];
  }

  Sums sums_of(const Arguments& call, const T* dy, std::int64_t c) const {
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T m = mean(call, c);
    const T s = istd(call, c);
    Sums sums{};
    for_each(c, [&](std::int64_t i) {
      sums.dy += dy[i];
      sums.dy_x += dy[i] * ((x[i] - m) * s);
    });
    return sums;
  }

  void backward_channel(const Arguments& call, const T* dy, std::int64_t c) const {
    const Sums own = sums_of(call, dy, c);
    static_cast<T*>(call.parameter_gradients[0])[c] = own.dy_x;
    static_cast<T*>(call.parameter_gradients[1])[c] = own.dy;
    T* dx = static_cast<T*>(call.input_gradients[0]);
    if (dx == nullptr || samples() == 0) return;
    Sums all = own;
    T count = static_cast<T>(samples());
    if (shape_.synchronized) {
      all = {static_cast<T>(merged_sum(call.parts, channels(), c, 0)),
             static_cast<T>(merged_sum(call.parts, channels(), c, 1))};
      count = static_cast<T>(merged_sum(call.parts, channels(), c, 2));
    }
    const T* x = static_cast<const T*>(call.inputs[0]);
    const T m = mean(call, c);
    const T s = istd(call, c);
    const T scale = static_cast<const T*>(call.parameters[0])[c] * s;
    const T mean_dy = all.dy / count;
    const T mean_dy_x = all.dy_x / count;
    for_each(c, [&](std::int64_t i) { dx[i] = scale * (dy[i] - mean_dy - (x[i] - m) * s * mean_dy_x); });
  }

  [[nodiscard]] Statistics measured(const T* x, std::int64_t c) const {
    if (samples() == 0) return {};
    T sum = 0;
    for_each(c, [&](std::int64_t i) { sum += x[i]; });
    const T mean = sum / static_cast<T>(samples());
    T squares = 0;
    for_each(c, [&](std::int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    return {static_cast<double>(samples()), mean, squares / static_cast<T>(samples())};
  }

  [[nodiscard]] static Statistics rounded(const Moments& all) {
    return {all.count, static_cast<T>(all.mean), static_cast<T>(all.count > 0 ? all.squares / all.count : 0)};
  }

  [[nodiscard]] Statistics running(const Arguments& call, std::int64_t c) const {
    return {0, static_cast<const T*>(call.state[0])[c], static_cast<const T*>(call.state[1])[c]};
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
  /// Returns the number of values of which a channel's statistics are computed.
  [[nodiscard]] std::int64_t samples() const { return out_.shape.batch * out_.shape.height * out_.shape.width; }

  BatchNorm shape_;
  Format out_;
};

}  // namespace

KernelPtr make(const BatchNorm& shape, Formats in) { return make_for<BatchNormKernel>(in, shape); }

}  // namespace lockstep::ops::reference
