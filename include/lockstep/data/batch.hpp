// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/buffer.hpp"

namespace lockstep::data {

/// One rank's share of a step, ready for the model. A view.
struct Batch {
  std::int64_t step = 0;   ///< of the epoch, from 0
  Count samples;           ///< on this rank; may be 0
  Count step_samples;      ///< over all ranks
  std::int64_t first = 0;  ///< the place of this rank's first sample among the step's
  /// In the order of the data set's tensors(), `samples` samples each, row-major.
  std::span<const Buffer> tensors;
};

}  // namespace lockstep::data
