// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/batch_norm_channels.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::ops::onednn {

BatchNormChannels::BatchNormChannels(const BatchNorm& shape, const kernels::ChannelLayout& layout,
                                     std::int64_t channels, int members)
    : shape_(shape),
      layout_(layout),
      channels_(channels),
      members_(members),
      running_line_(static_cast<std::size_t>(2 * layout.channels())),
      sums_(running_line_.size() * static_cast<std::size_t>(members)),
      coefficients_(static_cast<std::size_t>(rows * layout.channels())) {}

Bytes BatchNormChannels::saved_bytes() const {
  const std::int64_t each = 2 * static_cast<std::int64_t>(sizeof(double) + sizeof(float));
  return {each * layout_.channels()};
}

void BatchNormChannels::add_up(const Groups& groups) {
  for (int member = 1; member < members_; ++member) {
    for (std::int64_t c = groups.begin * layout_.lanes; c < groups.end * layout_.lanes; ++c) {
      sums_of(0)[c] += sums_of(member)[c];
      products_of(0)[c] += products_of(member)[c];
    }
  }
}

void BatchNormChannels::set_part(const Arguments& call) {
  for (std::int64_t c = 0; c < channels_; ++c) {
    const Moments own = own_moments(c);
    double* part = call.part + 3 * c;
    part[0] = own.count;
    part[1] = own.mean;
    part[2] = own.squares;
  }
}

void BatchNormChannels::set_backward_part(const Arguments& call) {
  for (std::int64_t c = 0; c < channels_; ++c) {
    double* part = call.part + 3 * c;
    part[0] = sum(c);
    part[1] = product(c);
    part[2] = values();
  }
}

void BatchNormChannels::clear_saved(const Arguments& call) const {
  std::memset(call.saved, 0, static_cast<std::size_t>(saved_bytes().value));
}

template <typename Body>
void BatchNormChannels::for_channels(const Groups& groups, const Body& body) const {
  const std::int64_t end = std::min(groups.end * layout_.lanes, channels_);
  for (std::int64_t c = groups.begin * layout_.lanes; c < end; ++c) body(c);
}

void BatchNormChannels::set_batch_line(const Arguments& call, const Groups& groups) {
  for_channels(groups, [&](std::int64_t c) {
    const Statistics moments = batch_statistics(call, c);
    saved(call, mean_row)[c] = static_cast<float>(moments.mean);
    saved(call, inverse_deviation)[c] =
        static_cast<float>(set_line(call, moments, static_cast<double*>(call.saved), c));
  });
}

void BatchNormChannels::set_running_line(const Arguments& call) {
  for_channels({0, layout_.groups}, [&](std::int64_t c) {
    const auto running = [&](std::size_t k) {
      return static_cast<double>(static_cast<const float*>(call.state[k])[c]);
    };
    set_line(call, {running(0), running(1)}, running_line_.data(), c);
  });
}

kernels::ForwardCoefficients BatchNormChannels::batch_line(const Arguments& call) const {
  const auto* line = static_cast<const double*>(call.saved);
  return {line, line + layout_.channels(), clip()};
}

kernels::ForwardCoefficients BatchNormChannels::running_line() const {
  return {running_line_.data(), running_line_.data() + layout_.channels(), clip()};
}

void BatchNormChannels::set_thresholds(const Arguments& call, const Groups& groups) {
  if (!is_clipped() || shape_.residual) return;
  const auto* line = static_cast<const double*>(call.saved);
  for_channels(groups, [&](std::int64_t c) {
    const double factor = line[c];
    const double summand = line[layout_.channels() + c];
    const kernels::Threshold threshold = kernels::threshold_of(factor, summand);
    coefficient(direction)[c] = threshold.direction;
    coefficient(from)[c] = threshold.from;
    if (shape_.activation == Activation::relu6) coefficient(to)[c] = kernels::threshold_of_six(factor, summand).from;
  });
}

void BatchNormChannels::backward(const Arguments& call, const Groups& groups) {
  for_channels(groups, [&](std::int64_t c) { backward_channel(call, c); });
}

kernels::BackwardCoefficients BatchNormChannels::backward_coefficients(const Arguments& call) {
  return {mean(call), coefficient(scale), coefficient(slope), coefficient(intercept)};
}

/// Computes y = (x − mean)·γ·istd + β as a line over x, in double, so that the result is rounded only once. @return
/// istd
double BatchNormChannels::set_line(const Arguments& call, const Statistics& moments, double* line,
                                   std::int64_t c) const {
  const double istd = 1 / std::sqrt(moments.variance + shape_.epsilon);
  const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
  line[c] = factor;
  line[layout_.channels() + c] =
      static_cast<double>(static_cast<const float*>(call.parameters[1])[c]) - moments.mean * factor;
  return istd;
}

/// Computes a channel's moments from its sums.
Moments BatchNormChannels::own_moments(std::int64_t c) {
  const double average = sum(c) / values();
  // In double, the difference of two sums of squares of float32 values is precise enough.
  return {values(), average, std::max(product(c) - values() * average * average, 0.0)};
}

/// Computes a channel's statistics of the batch and updates the running ones.
BatchNormChannels::Statistics BatchNormChannels::batch_statistics(const Arguments& call, std::int64_t c) {
  const Moments all = shape_.synchronized ? merged_moments(call.parts, channels_, c) : own_moments(c);
  const double variance = all.squares / all.count;
  update_running(static_cast<float*>(call.state[0])[c], static_cast<float*>(call.state[1])[c], shape_.momentum,
                 all.count, all.mean, variance);
  return {all.mean, variance};
}

/// Computes dx = γ·istd·(g − Σg/m − x̂·Σ(g·x̂)/m) with x̂ = (x − mean)·istd, as coefficients of g and x.
void BatchNormChannels::backward_channel(const Arguments& call, std::int64_t c) {
  const auto istd = static_cast<double>(saved(call, inverse_deviation)[c]);
  const double factor = static_cast<double>(static_cast<const float*>(call.parameters[0])[c]) * istd;
  const bool alone = !shape_.synchronized;
  const double own_sum = alone ? sum(c) : call.part[3 * c];
  const double own_product = alone ? product(c) : call.part[3 * c + 1];
  static_cast<float*>(call.parameter_gradients[0])[c] = static_cast<float>(own_product * istd);
  static_cast<float*>(call.parameter_gradients[1])[c] = static_cast<float>(own_sum);
  const double all_sum = alone ? own_sum : merged_sum(call.parts, channels_, c, 0);
  const double all_product = alone ? own_product : merged_sum(call.parts, channels_, c, 1);
  const double count = alone ? values() : merged_sum(call.parts, channels_, c, 2);
  coefficient(scale)[c] = static_cast<float>(factor);
  coefficient(slope)[c] = static_cast<float>(factor * istd * istd * all_product / count);
  coefficient(intercept)[c] = static_cast<float>(factor * all_sum / count);
}

kernels::Clip BatchNormChannels::clip() const {
  if (!is_clipped()) return kernels::Clip::none;
  return shape_.activation == Activation::relu ? kernels::Clip::relu : kernels::Clip::relu6;
}

}  // namespace lockstep::ops::onednn
