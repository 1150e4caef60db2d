// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// An all-reduce in the output, in two halves: in between, the sum of each element is complete on one rank.
struct SlicedAllReduce {
  Plan reduce_scatter;  ///< leaves the sum of `slice` there, and anything in the rest of the output
  Range slice;          ///< of the output; those of all ranks are disjoint and cover it; may be empty
  Plan all_gather;      ///< hands every slice to all; without scratch
};

/// Both halves, one after the other.
Plan all_reduce(SlicedAllReduce halves);

/// Both halves with a function applied to the slice in between. What the caller has in the output is kept for the
/// function: until then the output is not touched, but where the operation is in place.
/// @param count  elements of the output
/// @pre the rank's contribution lies in `sums_of(count, in_place)`
Plan reduce_then(const SlicedAllReduce& halves, Count count, bool in_place);

/// Where a reduce_then adds up: in the output if it is in place, otherwise in the first `count` elements of scratch.
Range sums_of(Count count, bool in_place);

}  // namespace lockstep::collectives
