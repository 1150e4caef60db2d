// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/loops.hpp"
#include "ops/reference/norms/run_norm.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// Normalizes over the channels of each position. Adjacent positions are processed side by side, in two passes and in
/// double. Saved are the means, then the inverse deviations, of each sample's positions.
template <typename T>
class ChannelNormKernel final : public Kernel {
 public:
  ChannelNormKernel(const Format& in, const LayerNorm& norm)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {2 * in.shape.batch * in.shape.height * in.shape.width * size_of(DType::float64)},
                .backward_reads_output = false}),
        epsilon_(norm.epsilon),
        in_(in.shape),
        positions_(in.shape.height * in.shape.width),
        scratch_(static_cast<std::size_t>(2 * positions_)),
        gradients_(static_cast<std::size_t>(2 * in.shape.channels)) {}

  void forward(const Arguments& call) override {
    for (std::int64_t n = 0; n < in_.batch; ++n) normalize(call, n, moments(call.saved, n));
  }
  void infer(const Arguments& call) override {
    for (std::int64_t n = 0; n < in_.batch; ++n) normalize(call, n, moments(scratch_.data(), 0));
  }

  void backward(const Arguments& call) override {
    std::fill(gradients_.begin(), gradients_.end(), 0.0);
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      add_sums(call, n);
      if (call.input_gradients[0] != nullptr) backward_input(call, n);
    }
    for (std::int64_t c = 0; c < in_.channels; ++c) {
      static_cast<T*>(call.parameter_gradients[0])[c] = static_cast<T>(gradients_[static_cast<std::size_t>(c)]);
      static_cast<T*>(call.parameter_gradients[1])[c] =
          static_cast<T>(gradients_[static_cast<std::size_t>(in_.channels + c)]);
    }
  }

 private:
  /// The moments of each position of a sample.
  struct MomentRows {
    double* mean;
    double* inverse_deviation;
    [[nodiscard]] double normal(T x, std::int64_t i) const {
      return (static_cast<double>(x) - mean[i]) * inverse_deviation[i];
    }
  };
  [[nodiscard]] MomentRows moments(void* memory, std::int64_t n) const {
    double* first = static_cast<double*>(memory) + 2 * n * positions_;
    return {first, first + positions_};
  }

  void normalize(const Arguments& call, std::int64_t n, const MomentRows& of) const {
    const T* x = static_cast<const T*>(call.inputs[0]) + first_of(n);
    moments_at(x, of);
    for (std::int64_t c = 0; c < in_.channels; ++c) {
      const auto weight = static_cast<double>(static_cast<const T*>(call.parameters[0])[c]);
      const auto bias = static_cast<double>(static_cast<const T*>(call.parameters[1])[c]);
      const T* row = x + c * positions_;
      T* y = static_cast<T*>(call.output) + first_of(n) + c * positions_;
      for (std::int64_t i = 0; i < positions_; ++i) y[i] = static_cast<T>(of.normal(row[i], i) * weight + bias);
    }
  }

  void moments_at(const T* x, const MomentRows& of) const {
    const auto channels = static_cast<double>(in_.channels);
    std::fill_n(of.mean, positions_, 0.0);
    for_each_row(x, [&](const T* row) {
      for (std::int64_t i = 0; i < positions_; ++i) of.mean[i] += static_cast<double>(row[i]);
    });
    for (std::int64_t i = 0; i < positions_; ++i) of.mean[i] /= channels;
    double* squares = of.inverse_deviation;
    std::fill_n(squares, positions_, 0.0);
    for_each_row(x, [&](const T* row) {
      for (std::int64_t i = 0; i < positions_; ++i) {
        const double difference = static_cast<double>(row[i]) - of.mean[i];
        squares[i] += difference * difference;
      }
    });
    for (std::int64_t i = 0; i < positions_; ++i)
      of.inverse_deviation[i] = 1 / std::sqrt(squares[i] / channels + epsilon_);
  }

  /// Adds a sample's part to the parameters' gradients. For the input's gradient it computes Σg and Σ g·x̂ over the
  /// channels of each position, with g = dy·weight and the normalized x̂.
  void add_sums(const Arguments& call, std::int64_t n) {
    const MomentRows of = moments(call.saved, n);
    double* sum_g = scratch_.data();
    double* sum_g_x = sum_g + positions_;
    std::fill(scratch_.begin(), scratch_.end(), 0.0);
    for (std::int64_t c = 0; c < in_.channels; ++c) {
      const T* x = static_cast<const T*>(call.inputs[0]) + first_of(n) + c * positions_;
      const T* dy = static_cast<const T*>(call.output_gradient) + first_of(n) + c * positions_;
      const auto weight = static_cast<double>(static_cast<const T*>(call.parameters[0])[c]);
      for (std::int64_t i = 0; i < positions_; ++i) {
        const double g = static_cast<double>(dy[i]) * weight;
        sum_g[i] += g;
        sum_g_x[i] += g * of.normal(x[i], i);
      }
      gradients_[static_cast<std::size_t>(c)] +=
          sum_of(positions_, [&](std::int64_t i) { return static_cast<double>(dy[i]) * of.normal(x[i], i); });
      gradients_[static_cast<std::size_t>(in_.channels + c)] += sum(dy, positions_);
    }
  }

  /// Computes dx = (g − Σg/C − x̂·Σ(g·x̂)/C) ÷ deviation.
  void backward_input(const Arguments& call, std::int64_t n) const {
    const MomentRows of = moments(call.saved, n);
    const double* sum_g = scratch_.data();
    const double* sum_g_x = sum_g + positions_;
    const double share = 1 / static_cast<double>(in_.channels);
    for (std::int64_t c = 0; c < in_.channels; ++c) {
      const T* x = static_cast<const T*>(call.inputs[0]) + first_of(n) + c * positions_;
      const T* dy = static_cast<const T*>(call.output_gradient) + first_of(n) + c * positions_;
      T* dx = static_cast<T*>(call.input_gradients[0]) + first_of(n) + c * positions_;
      const auto weight = static_cast<double>(static_cast<const T*>(call.parameters[0])[c]);
      for (std::int64_t i = 0; i < positions_; ++i) {
        const double rest = static_cast<double>(dy[i]) * weight - share * (sum_g[i] + of.normal(x[i], i) * sum_g_x[i]);
        dx[i] = static_cast<T>(rest * of.inverse_deviation[i]);
      }
    }
  }

  /// Calls `f(first element)` for each channel of a sample.
  template <typename F>
  void for_each_row(const T* sample, const F& f) const {
    for (std::int64_t c = 0; c < in_.channels; ++c) f(sample + c * positions_);
  }
  [[nodiscard]] std::int64_t first_of(std::int64_t n) const { return n * in_.channels * positions_; }

  double epsilon_;
  Shape in_;
  std::int64_t positions_;
  std::vector<double> scratch_;    ///< two rows, each of one value per position
  std::vector<double> gradients_;  ///< those of weights, then those of biases
};

}  // namespace

KernelPtr make(const LayerNorm& norm, Formats in) {
  const Shape& shape = in[0].shape;
  const std::int64_t positions = shape.height * shape.width;
  if (norm.axes == LayerNorm::Axes::channels && positions > 1) return make_for<ChannelNormKernel>(in, norm);
  return make_run_norm({.columns = shape.channels * positions, .weights_of_elements = true, .epsilon = norm.epsilon},
                       in);
}

}  // namespace lockstep::ops::reference
