// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep::data {

struct Images;

/// Per channel, with bytes read as 0 … 1: an element x becomes (x/255 − mean) / deviation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;  ///< 1 for a channel that is the same everywhere
};

/// Mean and (population) standard deviation of each channel, from exact integer sums: the same on every rank.
/// @throws Error{invalid_argument} if there are no images
Normalization measure_normalization(const Images& images);

}  // namespace lockstep::data
