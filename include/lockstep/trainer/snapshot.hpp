// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::trainer {

/// Where a run stands between two steps: with it, ranks that were not there before can go on as if they had been.
struct Snapshot {
  std::int64_t epoch = 1;           ///< from 1
  std::int64_t step = 0;            ///< steps done in this epoch
  std::vector<std::byte> weights;   ///< all parameters
  std::vector<std::byte> velocity;  ///< the optimizer's state
  std::vector<std::byte> state;     ///< running statistics
};

}  // namespace lockstep::trainer
