// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// An all-reduce in the output, in two halves. Between them the sum of each element is complete on one rank.
struct SlicedAllReduce {
  Plan reduce_scatter;  ///< leaves the sum in `slice`, and unspecified values in the rest of the output
  Range slice;          ///< range of the output; the slices of all ranks are disjoint and cover it; may be empty
  Plan all_gather;      ///< distributes every slice; without scratch
};

/// Returns one plan of both halves, one after the other.
Plan all_reduce(SlicedAllReduce halves);

/// Returns one plan of both halves with a function applied to the slice in between. The caller's output is preserved
/// for the function: it is not accessed before, unless the operation is in place.
/// @param count  elements of the output
/// @pre the rank's contribution is in `sums_of(count, in_place)`
Plan reduce_then(const SlicedAllReduce& halves, Count count, bool in_place);

/// Returns the range in which a reduce_then adds: the output if it is in place, otherwise the first `count` elements of
/// scratch.
Range sums_of(Count count, bool in_place);

}  // namespace lockstep::collectives
