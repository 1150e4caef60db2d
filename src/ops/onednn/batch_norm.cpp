// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/moments.hpp"
#include "ops/onednn/channel_layout.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Saved for backward: mean and inverse standard deviation of each channel.
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const ContextPtr& context, const Format& in, const BatchNorm& shape)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {2 * in.shape.channels * size_of(DType::float32)},
                .backward_reads_output = shape.activation != Activation::none,
                .forward_part = shape.synchronised ? 3 * in.shape.channels : 0,
                .backward_part = shape.synchronised ? 3 * in.shape.channels : 0}),
        shape_(shape),
        out_(in),
        layout_(channel_layout(in)),
        sums_(static_cast<std::size_t>(layout_.channels())),
        products_(sums_.size()),
        scales_(sums_.size()),
        shifts_(sums_.size()),
        coefficients_(4 * sums_.size()) {
    if (relu()) relu_backward_ = ReluBackward(context, to_desc(in));
  }

  void measure(const Arguments& call) override {
    kernels::sum_channels(layout_, static_cast<const float*>(call.inputs[0]), sums_.data(), products_.data());
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) {
      const Moments own = own_moments(c);
      double* part = call.part + 3 * c;
      part[0] = own.count;
      part[1] = own.mean;
      part[2] = own.squares;
    }
  }

  void forward(const Arguments& call) override { normalise(call, true); }
  void infer(const Arguments& call) override { normalise(call, false); }

  void measure_backward(const Arguments& call) override {
    sum_gradients(call);
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) {
      const auto i = static_cast<std::size_t>(c);
      double* part = call.part + 3 * c;
      part[0] = sums_[i];
      part[1] = products_[i];
      part[2] = values();
    }
  }

  void backward(const Arguments& call) override {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    const auto* dy = static_cast<const float*>(call.output_gradient);
    if (!shape_.synchronised) sum_gradients(call);
    std::copy_n(saved(call.saved, mean), out_.shape.channels, coefficient(mean));
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) backward_channel(call, c);
    if (call.input_gradients[0] == nullptr) return;
    kernels::backward_input(layout_,
                            {coefficient(mean), coefficient(scale), coefficient(slope), coefficient(intercept)}, x, dy,
                            static_cast<float*>(call.input_gradients[0]));
  }

 private:
  // Rows of `saved` and of `coefficients_`.
  static constexpr std::int64_t mean = 0;
  static constexpr std::int64_t inverse_deviation = 1;
  static constexpr std::int64_t scale = 1;
  static constexpr std::int64_t slope = 2;
  static constexpr std::int64_t intercept = 3;

  void normalise(const Arguments& call, bool training) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    if (training && !shape_.synchronised) kernels::sum_channels(layout_, x, sums_.data(), products_.data());
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) forward_channel(call, training, c);
    kernels::normalise(layout_, {scales_.data(), shifts_.data(), relu()}, x, static_cast<float*>(call.output));
  }

  /// Of what lies before the activation, whose part of the backward pass is done in place.
  void sum_gradients(const Arguments& call) {
    if (relu()) relu_backward_.run(call.output, call.output_gradient, call.output_gradient);
    std::copy_n(saved(call.saved, mean), out_.shape.channels, coefficient(mean));
    kernels::sum_gradients(layout_, coefficient(mean), static_cast<const float*>(call.inputs[0]),
                           static_cast<const float*>(call.output_gradient), sums_.data(), products_.data());
  }

  struct Statistics {
    double mean;
    double variance;
  };

  /// y = (x − mean)·γ·istd + β, as coefficients of x. In double, so that the result is rounded only once.
  void forward_channel(const Arguments& call, bool training, std::int64_t c) {
    const Statistics moments = training ? batch_statistics(call, c) : running_statistics(call, c);
    const double istd = 1 / std::sqrt(moments.variance + shape_.epsilon);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    const auto i = static_cast<std::size_t>(c);
    scales_[i] = factor;
    shifts_[i] = static_cast<double>(static_cast<const float*>(call.parameters[1])[c]) - moments.mean * factor;
    if (!training) return;
    saved(call.saved, mean)[c] = static_cast<float>(moments.mean);
    saved(call.saved, inverse_deviation)[c] = static_cast<float>(istd);
  }

  /// From the sums of a channel.
  [[nodiscard]] Moments own_moments(std::int64_t c) const {
    const auto i = static_cast<std::size_t>(c);
    const double average = sums_[i] / values();
    // In double the difference of two squares of float32 values keeps what it needs.
    return {values(), average, std::max(products_[i] - values() * average * average, 0.0)};
  }

  /// Updates the running statistics.
  [[nodiscard]] Statistics batch_statistics(const Arguments& call, std::int64_t c) const {
    const Moments all = shape_.synchronised ? merged_moments(call.parts, out_.shape.channels, c) : own_moments(c);
    const double variance = all.squares / all.count;
    update(static_cast<float*>(call.state[0])[c], all.mean);
    // A single value has no unbiased variance; its biased one, 0, is used.
    update(static_cast<float*>(call.state[1])[c], all.count > 1 ? variance * all.count / (all.count - 1) : variance);
    return {all.mean, variance};
  }

  [[nodiscard]] static Statistics running_statistics(const Arguments& call, std::int64_t c) {
    return {static_cast<double>(static_cast<const float*>(call.state[0])[c]),
            static_cast<double>(static_cast<const float*>(call.state[1])[c])};
  }

  /// dx = γ·istd·(g − Σg/m − x̂·Σ(g·x̂)/m) with x̂ = (x − mean)·istd, as coefficients of g and x.
  void backward_channel(const Arguments& call, std::int64_t c) {
    const auto i = static_cast<std::size_t>(c);
    const auto istd = static_cast<double>(saved(call.saved, inverse_deviation)[c]);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    const bool alone = !shape_.synchronised;
    const std::int64_t channels = out_.shape.channels;
    const double own_sum = alone ? sums_[i] : call.part[3 * c];
    const double own_product = alone ? products_[i] : call.part[3 * c + 1];
    static_cast<float*>(call.parameter_gradients[0])[c] = static_cast<float>(own_product * istd);
    static_cast<float*>(call.parameter_gradients[1])[c] = static_cast<float>(own_sum);
    const double sum = alone ? own_sum : merged_sum(call.parts, channels, c, 0);
    const double product = alone ? own_product : merged_sum(call.parts, channels, c, 1);
    const double count = alone ? values() : merged_sum(call.parts, channels, c, 2);
    coefficient(scale)[c] = static_cast<float>(factor);
    coefficient(slope)[c] = static_cast<float>(factor * istd * istd * product / count);
    coefficient(intercept)[c] = static_cast<float>(factor * sum / count);
  }

  void update(float& running, double batch) const {
    running = static_cast<float>((1 - shape_.momentum) * static_cast<double>(running) + shape_.momentum * batch);
  }

  [[nodiscard]] float* saved(void* memory, std::int64_t row) const {
    return static_cast<float*>(memory) + row * out_.shape.channels;
  }
  /// One row of per-channel values; zero beyond the last channel, which keeps a block's fill-up zero.
  [[nodiscard]] float* coefficient(std::int64_t row) { return coefficients_.data() + row * layout_.channels(); }
  [[nodiscard]] bool relu() const { return shape_.activation == Activation::relu; }
  /// Values that a channel's statistics are taken over.
  [[nodiscard]] double values() const { return static_cast<double>(layout_.images * layout_.positions); }

  BatchNorm shape_;
  Format out_;
  kernels::ChannelLayout layout_;
  std::vector<double> sums_;
  std::vector<double> products_;
  std::vector<double> scales_;  ///< zero beyond the last channel, as the shifts, which keeps a block's fill-up zero
  std::vector<double> shifts_;
  std::vector<float> coefficients_;
  ReluBackward relu_backward_;
};

}  // namespace

std::unique_ptr<Kernel> make(const BatchNorm& shape, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<BatchNormKernel>(context, in[0], shape);
}

}  // namespace lockstep::ops::onednn
