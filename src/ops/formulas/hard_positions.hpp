// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/ops/operators.hpp"

namespace lockstep::ops {

/// What decides which positions of a sample `OhemCrossEntropy` keeps, the same on every device. A lower probability of
/// the label is a larger loss, so losses are compared.
template <typename T>
struct HardPositions {
  T bound;             ///< the least loss of a hard position
  std::int64_t least;  ///< number of positions that are kept, as far as there are so many labels

  HardPositions(const OhemCrossEntropy& loss, std::int64_t positions)
      : bound(std::nextafter(static_cast<T>(-std::log(loss.threshold)), std::numeric_limits<T>::infinity())),
        least(static_cast<std::int64_t>(std::ceil(loss.least * static_cast<double>(positions)))) {}
};

}  // namespace lockstep::ops
