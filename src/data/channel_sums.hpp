// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/base/tensor_spec.hpp"

namespace lockstep::data {

/// Sums over the bytes of a channel. They are exact, so the mean and deviation are the same on every rank.
struct ChannelSums {
  std::uint64_t values = 0;
  std::uint64_t squares = 0;  // cannot overflow: 2^64 / 255² elements are more than 10^14

  void add(std::uint32_t value) {
    values += value;
    squares += std::uint64_t{value} * value;
  }
};

/// Appends the mean and (population) standard deviation of a channel. @param count  number of its bytes, not 0
inline void append_channel(const ChannelSums& sums, double count, Normalization& to) {
  const double mean = static_cast<double>(sums.values) / count;
  const double variance = static_cast<double>(sums.squares) / count - mean * mean;
  // A smaller variance is a rounding error: one byte that differs among 10^9 gives 10^-9.
  const bool constant = variance < 1e-10;
  to.mean.push_back(mean / 255);
  to.deviation.push_back(constant ? 1.0 : std::sqrt(variance) / 255);
}

}  // namespace lockstep::data
