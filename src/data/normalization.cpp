// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/normalization.hpp"

#include <cmath>
#include <cstdint>

#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

struct Sums {
  std::uint64_t values = 0;
  std::uint64_t squares = 0;  // cannot overflow: 2^64 / 255² elements are more than 10^14
};

Sums sums_of_channel(const Dataset& dataset, std::int64_t channel) {
  const auto pixels = static_cast<std::size_t>(dataset.shape.pixels());
  Sums sums;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    for (const std::uint32_t value : dataset.image(i).subspan(static_cast<std::size_t>(channel) * pixels, pixels)) {
      sums.values += value;
      sums.squares += std::uint64_t{value} * value;
    }
  }
  return sums;
}

}  // namespace

Normalization measure_normalization(const Dataset& dataset) {
  const auto count = static_cast<double>(dataset.size() * dataset.shape.pixels());
  if (count == 0)
    throw Error(ErrorCode::invalid_argument, "the data set \"" + dataset.name + "\" is empty: nothing to normalise by");
  Normalization result;
  for (std::int64_t channel = 0; channel < dataset.shape.channels; ++channel) {
    const Sums sums = sums_of_channel(dataset, channel);
    const double mean = static_cast<double>(sums.values) / count;
    const double variance = static_cast<double>(sums.squares) / count - mean * mean;
    // Below this lies rounding, not data: one byte that differs among 10^9 gives 10^-9.
    const bool constant = variance < 1e-10;
    result.mean.push_back(mean / 255);
    result.deviation.push_back(constant ? 1.0 : std::sqrt(variance) / 255);
  }
  return result;
}

}  // namespace lockstep::data
