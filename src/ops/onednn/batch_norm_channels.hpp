// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/batch_norm.hpp"
#include "lockstep/ops/ops.hpp"
#include "ops/formulas/moments.hpp"

namespace lockstep::ops::onednn {

/// A range of groups of channels, as in `kernels::ChannelLayout`.
struct Groups {
  std::int64_t begin;
  std::int64_t end;
};

/// The per-channel part of batch norm, after the sums over the batch. It computes in float64, whatever type the
/// elements have.
///
/// It saves for backward, for each channel, padding included: the factor and the summand of x in double, then the mean
/// and the inverse standard deviation.
class BatchNormChannels {
 public:
  /// @param channels  number of channels without padding
  /// @param members   size of the team; each member has its own sums
  BatchNormChannels(const BatchNorm& shape, const kernels::ChannelLayout& layout, std::int64_t channels, int members);

  [[nodiscard]] Bytes saved_bytes() const;
  [[nodiscard]] double* sums_of(int member) { return sums_.data() + 2 * member * layout_.channels(); }
  [[nodiscard]] double* products_of(int member) { return sums_of(member) + layout_.channels(); }
  /// Adds the sums of all members of the team, in their order, to those of the first one.
  void add_up(const Groups& groups);

  /// Writes this rank's local statistics to the call's part: count, mean and squares of the values.
  void set_part(const Arguments& call);
  /// Writes this rank's local statistics of gradients to the call's part: sum, product and count.
  void set_backward_part(const Arguments& call);

  /// Zeros everything that is saved, padding included.
  void clear_saved(const Arguments& call) const;
  /// Sets the line from the batch's statistics, and updates the running ones.
  void set_batch_line(const Arguments& call, const Groups& groups);
  /// Sets the line from the running statistics.
  void set_running_line(const Arguments& call);
  [[nodiscard]] kernels::ForwardCoefficients batch_line(const Arguments& call) const;
  [[nodiscard]] kernels::ForwardCoefficients running_line() const;

  [[nodiscard]] const float* mean(const Arguments& call) const { return saved(call, mean_row); }
  /// Computes the thresholds of the activation's input from what is saved.
  void set_thresholds(const Arguments& call, const Groups& groups);
  /// Returns the mask of the gradient before the activation: the output if there is a residual, otherwise the
  /// thresholds.
  template <typename T>
  [[nodiscard]] kernels::Mask<T> mask(const Arguments& call) {
    if (!is_clipped()) return {};
    const bool six = shape_.activation == Activation::relu6;
    if (shape_.residual) return {.output = static_cast<const T*>(call.output), .six = six};
    return {.direction = coefficient(direction), .from = coefficient(from), .to = coefficient(to), .six = six};
  }
  /// Computes the parameters' gradients and the coefficients of the input's gradient.
  void backward(const Arguments& call, const Groups& groups);
  [[nodiscard]] kernels::BackwardCoefficients backward_coefficients(const Arguments& call);

  [[nodiscard]] bool is_clipped() const { return shape_.activation != Activation::none; }

 private:
  // These are the rows of what is saved, and of `coefficients_`.
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

  /// Returns a row of floats, which come after the line.
  [[nodiscard]] float* saved(const Arguments& call, std::int64_t row) const {
    return reinterpret_cast<float*>(static_cast<double*>(call.saved) + 2 * layout_.channels()) +
           row * layout_.channels();
  }
  /// Returns one row of per-channel values. It is zero for padding channels, which keeps the padding zero.
  [[nodiscard]] float* coefficient(std::int64_t row) { return coefficients_.data() + row * layout_.channels(); }
  [[nodiscard]] double sum(std::int64_t c) { return sums_of(0)[c]; }
  [[nodiscard]] double product(std::int64_t c) { return products_of(0)[c]; }
  [[nodiscard]] kernels::Clip clip() const;
  /// Returns the number of values of which a channel's statistics are computed.
  [[nodiscard]] double values() const { return static_cast<double>(layout_.images * layout_.positions); }

  BatchNorm shape_;
  kernels::ChannelLayout layout_;
  std::int64_t channels_;
  int members_;
  std::vector<double> running_line_;  ///< zero for padding channels, which keeps the padding zero
  std::vector<double> sums_;          ///< for each member: sums of each channel's values, then of their products
  std::vector<float> coefficients_;
};

}  // namespace lockstep::ops::onednn
