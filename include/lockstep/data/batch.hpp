// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/buffer.hpp"

namespace lockstep::data {

/// One rank's share of a global batch, ready for the model. It is a view.
struct Batch {
  std::int64_t step = 0;              ///< index within the epoch, from 0
  Count samples;                      ///< on this rank; may be 0
  Count step_samples;                 ///< size of the global batch, over all ranks
  std::int64_t first = 0;             ///< position of this rank's first sample in the global batch
  std::span<const std::int64_t> ids;  ///< index in the data set of each of this rank's samples
  std::size_t extents = 0;            ///< those of the tensors, as an index in Dataset::extents()
  /// One buffer for each of the data set's tensors(), in their order, with `samples` samples each, row-major.
  std::span<const Buffer> tensors;
};

}  // namespace lockstep::data
