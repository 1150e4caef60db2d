// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "kernels/reduce.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// Does what kernels::combine does, in the canonical order (`canonical_order.hpp`) and with every sum rounded to the
/// type: the bits that pairs of ranks get who send each other their sums. Reused from step to step; allocates only when
/// there are more outputs than ever before.
/// @cost  each input is read once, each output written once; sums in between stay in the cache
class CanonicalCombine {
 public:
  /// @param widths  of how many leaves each input is the sum; empty: of one each
  void operator()(std::span<void* const> outs, std::span<const void* const> ins, std::span<const int> widths,
                  Count count, DType dtype, ReduceOp op, kernels::Residence residence);

 private:
  std::vector<void*> tiles_;  // one of each output
};

}  // namespace lockstep::backends
