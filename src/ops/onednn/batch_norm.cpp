// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

/// @throws Error{unsupported} if channels are blocked in a way that the loops do not know
kernels::ChannelLayout channel_layout(const Format& format) {
  const Shape& shape = format.shape;
  const std::int64_t positions = shape.height * shape.width;
  const Desc desc = to_desc(format);
  const Dims dims = dims_of(shape);
  if (desc == describe(dims, Tag::nchw)) return {shape.batch, shape.channels, positions, 1};
  if (desc == describe(dims, Tag::nhwc)) return {shape.batch, 1, positions, shape.channels};
  if (desc == describe(dims, Tag::nChw8c)) return {shape.batch, (shape.channels + 7) / 8, positions, 8};
  if (desc == describe(dims, Tag::nChw16c)) return {shape.batch, (shape.channels + 15) / 16, positions, 16};
  throw Error(ErrorCode::unsupported, "batch norm knows NCHW, NHWC and channels in blocks of 8 or 16");
}

/// Saved for backward: mean and inverse standard deviation of each channel.
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const ContextPtr& context, const Format& in, const BatchNorm& shape)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {2 * in.shape.channels * size_of(DType::float32)},
                .backward_reads_output = shape.activation != Activation::none}),
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

  void forward(const Arguments& call) override { normalise(call, true); }
  void infer(const Arguments& call) override { normalise(call, false); }

  void normalise(const Arguments& call, bool training) {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    if (training) kernels::sum_channels(layout_, x, sums_.data(), products_.data());
    for (std::int64_t c = 0; c < out_.shape.channels; ++c) forward_channel(call, training, c);
    kernels::normalise(layout_, {scales_.data(), shifts_.data(), relu()}, x, static_cast<float*>(call.output));
  }

  void backward(const Arguments& call) override {
    const auto* x = static_cast<const float*>(call.inputs[0]);
    const auto* dy = static_cast<const float*>(call.output_gradient);
    if (relu()) relu_backward_.run(call.output, call.output_gradient, call.output_gradient);
    std::copy_n(saved(call.saved, mean), out_.shape.channels, coefficient(mean));
    kernels::sum_gradients(layout_, coefficient(mean), x, dy, sums_.data(), products_.data());
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

  struct Moments {
    double mean;
    double variance;
  };

  /// y = (x − mean)·γ·istd + β, as coefficients of x. In double, so that the result is rounded only once.
  void forward_channel(const Arguments& call, bool training, std::int64_t c) {
    const Moments moments = training ? batch_moments(call, c) : running_moments(call, c);
    const double istd = 1 / std::sqrt(moments.variance + shape_.epsilon);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    const auto i = static_cast<std::size_t>(c);
    scales_[i] = factor;
    shifts_[i] = static_cast<double>(static_cast<const float*>(call.parameters[1])[c]) - moments.mean * factor;
    if (!training) return;
    saved(call.saved, mean)[c] = static_cast<float>(moments.mean);
    saved(call.saved, inverse_deviation)[c] = static_cast<float>(istd);
  }

  /// Derives the moments of a batch from its sums; updates the running statistics.
  [[nodiscard]] Moments batch_moments(const Arguments& call, std::int64_t c) const {
    const auto i = static_cast<std::size_t>(c);
    const double average = sums_[i] / values();
    // In double the difference of two squares of float32 values keeps what it needs.
    const double variance = std::max(products_[i] / values() - average * average, 0.0);
    update(static_cast<float*>(call.state[0])[c], average);
    // A single value has no unbiased variance; its biased one, 0, is used.
    update(static_cast<float*>(call.state[1])[c], values() > 1 ? variance * values() / (values() - 1) : variance);
    return {average, variance};
  }

  [[nodiscard]] static Moments running_moments(const Arguments& call, std::int64_t c) {
    return {static_cast<double>(static_cast<const float*>(call.state[0])[c]),
            static_cast<double>(static_cast<const float*>(call.state[1])[c])};
  }

  /// dx = γ·istd·(g − Σg/m − x̂·Σ(g·x̂)/m) with x̂ = (x − mean)·istd, as coefficients of g and x.
  void backward_channel(const Arguments& call, std::int64_t c) {
    const auto i = static_cast<std::size_t>(c);
    const auto istd = static_cast<double>(saved(call.saved, inverse_deviation)[c]);
    const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
    static_cast<float*>(call.parameter_gradients[0])[c] = static_cast<float>(products_[i] * istd);
    static_cast<float*>(call.parameter_gradients[1])[c] = static_cast<float>(sums_[i]);
    coefficient(scale)[c] = static_cast<float>(factor);
    coefficient(slope)[c] = static_cast<float>(factor * istd * istd * products_[i] / values());
    coefficient(intercept)[c] = static_cast<float>(factor * sums_[i] / values());
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
