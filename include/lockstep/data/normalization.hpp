// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep::data {

struct Images;

/// Normalization for each channel, with bytes scaled to 0 … 1: an element x becomes (x/255 − mean) / deviation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;  ///< 1 for a constant channel
};

/// Mean and (population) standard deviation of each channel, from exact integer sums, so that it is the same on every
/// rank.
/// @throws Error{invalid_argument} if there are no images
Normalization measure_normalization(const Images& images);

}  // namespace lockstep::data
