// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/normalization.hpp"

#include <cmath>
#include <cstdint>

#include "lockstep/base/error.hpp"
#include "lockstep/data/images.hpp"

namespace lockstep::data {

namespace {

struct Sums {
  std::uint64_t values = 0;
  std::uint64_t squares = 0;  // cannot overflow: 2^64 / 255² elements are more than 10^14
};

Sums sums_of_channel(const Images& images, std::int64_t channel) {
  const auto pixels = static_cast<std::size_t>(images.shape.pixels());
  Sums sums;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    for (const std::uint32_t value : images.image(i).subspan(static_cast<std::size_t>(channel) * pixels, pixels)) {
      sums.values += value;
      sums.squares += std::uint64_t{value} * value;
    }
  }
  return sums;
}

}  // namespace

Normalization measure_normalization(const Images& images) {
  const auto count = static_cast<double>(images.size() * images.shape.pixels());
  if (count == 0)
    throw Error(ErrorCode::invalid_argument, "the data set \"" + images.name + "\" is empty: nothing to normalize by");
  Normalization result;
  for (std::int64_t channel = 0; channel < images.shape.channels; ++channel) {
    const Sums sums = sums_of_channel(images, channel);
    const double mean = static_cast<double>(sums.values) / count;
    const double variance = static_cast<double>(sums.squares) / count - mean * mean;
    // A smaller variance is a rounding error: one byte that differs among 10^9 gives 10^-9.
    const bool constant = variance < 1e-10;
    result.mean.push_back(mean / 255);
    result.deviation.push_back(constant ? 1.0 : std::sqrt(variance) / 255);
  }
  return result;
}

}  // namespace lockstep::data
