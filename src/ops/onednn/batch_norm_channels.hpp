// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/batch_norm.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/moments.hpp"

namespace lockstep::ops::onednn {

/// Some groups of channels, as of `kernels::ChannelLayout`.
struct Groups {
  std::int64_t begin;
  std::int64_t end;
};

/// What batch norm computes of each channel, once its sums over the batch are there: in float64, whatever its elements
/// are stored as.
///
/// Saved for backward, of each channel, fill-up included: what x is multiplied by and what is added, in double, then
/// mean and inverse standard deviation.
class BatchNormChannels {
 public:
  /// @param channels  without a block's fill-up
  /// @param members   of the team, each of which has sums of its own
  BatchNormChannels(const BatchNorm& shape, const kernels::ChannelLayout& layout, std::int64_t channels, int members);

  [[nodiscard]] Bytes saved_bytes() const;
  [[nodiscard]] double* sums_of(int member) { return sums_.data() + 2 * member * layout_.channels(); }
  [[nodiscard]] double* products_of(int member) { return sums_of(member) + layout_.channels(); }
  /// What the team's members have found becomes the first one's, in their order.
  void add_up(const Groups& groups);

  /// The call's part for other ranks, of what has been summed: count, mean and squares of values.
  void set_part(const Arguments& call);
  /// And sum, product and count of gradients.
  void set_backward_part(const Arguments& call);

  /// Makes what is saved all zero, beyond the last channel too.
  void clear_saved(const Arguments& call) const;
  /// By the batch's statistics; updates the running ones.
  void set_batch_line(const Arguments& call, const Groups& groups);
  /// By the running statistics.
  void set_running_line(const Arguments& call);
  [[nodiscard]] kernels::ForwardCoefficients batch_line(const Arguments& call) const;
  [[nodiscard]] kernels::ForwardCoefficients running_line() const;

  [[nodiscard]] const float* mean(const Arguments& call) const { return saved(call, mean_row); }
  /// Of what goes into a ReLU, from what is saved.
  void set_thresholds(const Arguments& call, const Groups& groups);
  /// What the gradient behind the activation is masked by: the output, where something was added to it, else
  /// thresholds.
  template <typename T>
  [[nodiscard]] kernels::Mask<T> mask(const Arguments& call) {
    if (!is_clipped()) return {};
    const bool six = shape_.activation == Activation::relu6;
    if (shape_.residual) return {.output = static_cast<const T*>(call.output), .six = six};
    return {.direction = coefficient(direction), .from = coefficient(from), .to = coefficient(to), .six = six};
  }
  /// Parameters' gradients, and the coefficients of the input's.
  void backward(const Arguments& call, const Groups& groups);
  [[nodiscard]] kernels::BackwardCoefficients backward_coefficients(const Arguments& call);

  [[nodiscard]] bool is_clipped() const { return shape_.activation != Activation::none; }

 private:
  // Rows of what is saved, and of `coefficients_`.
  static constexpr std::int64_t mean_row = 0;
  static constexpr std::int64_t inverse_deviation = 1;
  static constexpr std::int64_t scale = 1;
  static constexpr std::int64_t slope = 2;
  static constexpr std::int64_t intercept = 3;
  static constexpr std::int64_t direction = 4;
  static constexpr std::int64_t from = 5;
  static constexpr std::int64_t to = 6;
  static constexpr std::int64_t rows = 7;

  struct Statistics {
    double mean;
    double variance;
  };

  template <typename Body>
  void for_channels(const Groups& groups, const Body& body) const;
  double set_line(const Arguments& call, const Statistics& moments, double* line, std::int64_t c) const;
  [[nodiscard]] Moments own_moments(std::int64_t c);
  [[nodiscard]] Statistics batch_statistics(const Arguments& call, std::int64_t c);
  void backward_channel(const Arguments& call, std::int64_t c);
  void update(float& running, double batch) const;

  /// A row of floats behind the line.
  [[nodiscard]] float* saved(const Arguments& call, std::int64_t row) const {
    return reinterpret_cast<float*>(static_cast<double*>(call.saved) + 2 * layout_.channels()) +
           row * layout_.channels();
  }
  /// One row of per-channel values; zero beyond the last channel, which keeps a block's fill-up zero.
  [[nodiscard]] float* coefficient(std::int64_t row) { return coefficients_.data() + row * layout_.channels(); }
  [[nodiscard]] double sum(std::int64_t c) { return sums_of(0)[c]; }
  [[nodiscard]] double product(std::int64_t c) { return products_of(0)[c]; }
  [[nodiscard]] kernels::Clip clip() const;
  /// Values that a channel's statistics are taken over.
  [[nodiscard]] double values() const { return static_cast<double>(layout_.images * layout_.positions); }

  BatchNorm shape_;
  kernels::ChannelLayout layout_;
  std::int64_t channels_;
  int members_;
  std::vector<double> running_line_;  ///< zero beyond the last channel, which keeps a block's fill-up zero
  std::vector<double> sums_;          ///< of each member: of a channel's values, then of their products
  std::vector<float> coefficients_;
};

}  // namespace lockstep::ops::onednn
