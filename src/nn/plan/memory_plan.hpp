// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep::nn {

/// Memory that must hold its contents during the moments `first` … `last`, both included.
struct Lifetime {
  Bytes bytes;
  int first = 0;
  int last = 0;
  int lane = 0;  ///< the lane that uses it; moments of different lanes are unordered
};

/// The offsets of buffers in one allocation.
struct MemoryPlan {
  std::vector<Bytes> offsets;  ///< one for each buffer; multiples of 64
  Bytes total;
};

/// Places buffers so that no two overlap if they are alive at the same moment or belong to different lanes. The largest
/// buffer comes first, and each gets the lowest offset that is free throughout its life.
/// @cost O(n²) for n buffers
/// @source Pisarchyk & Lee: Efficient memory management for deep neural net inference, 2020 (greedy by size)
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace lockstep::nn
