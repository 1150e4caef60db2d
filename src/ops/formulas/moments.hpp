// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/ops/step.hpp"

namespace lockstep::ops {

/// Moments of the values of one channel: their number, their mean, and the sum of their squared distances from the
/// mean.
struct Moments {
  double count;
  double mean;
  double squares;
};

/// Merges the moments of two sets of values, without a difference of large sums.
/// @source Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979
LOCKSTEP_HOST_DEVICE inline Moments merged(const Moments& a, const Moments& b) {
  const double count = a.count + b.count;
  if (count == 0) return {};
  const double apart = b.mean - a.mean;
  return {count, a.mean + apart * (b.count / count),
          a.squares + b.squares + apart * apart * (a.count * b.count / count)};
}

/// Moves a channel's running statistics towards those of a batch. All compute libraries round alike here, because
/// shards without samples are computed by another one than shards with samples.
template <typename T>
void update_running(T& mean, T& variance, double momentum, double count, double batch_mean, double batch_variance) {
  const auto update = [momentum](T& running, double batch) {
    running = static_cast<T>((1 - momentum) * static_cast<double>(running) + momentum * batch);
  };
  update(mean, batch_mean);
  // A single value has no unbiased variance, so its biased variance, 0, is used.
  update(variance, count > 1 ? batch_variance * count / (count - 1) : batch_variance);
}

/// Reduces at(begin) … at(end − 1) pairwise, in an order that depends on their number alone.
template <typename At, typename Join>
auto fold_pairwise(std::int64_t begin, std::int64_t end, const At& at, const Join& join) -> decltype(at(begin)) {
  if (end - begin == 1) return at(begin);
  const std::int64_t middle = begin + (end - begin) / 2;
  return join(fold_pairwise(begin, middle, at, join), fold_pairwise(middle, end, at, join));
}

/// Merges the moments of a channel from parts that each hold three numbers per channel.
inline Moments merged_moments(std::span<const double> parts, std::int64_t channels, std::int64_t channel) {
  const auto at = [&](std::int64_t part) {
    const double* of = parts.data() + 3 * (part * channels + channel);
    return Moments{of[0], of[1], of[2]};
  };
  return fold_pairwise(0, static_cast<std::int64_t>(parts.size()) / (3 * channels), at, merged);
}

/// Adds up number `which` of a channel from parts that each hold two sums and a count per channel.
inline double merged_sum(std::span<const double> parts, std::int64_t channels, std::int64_t channel,
                         std::int64_t which) {
  const auto at = [&](std::int64_t part) {
    return parts[static_cast<std::size_t>(3 * (part * channels + channel) + which)];
  };
  return fold_pairwise(0, static_cast<std::int64_t>(parts.size()) / (3 * channels), at,
                       [](double a, double b) { return a + b; });
}

}  // namespace lockstep::ops
