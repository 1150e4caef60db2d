// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "kernels/reduce.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// Does the same as kernels::combine in the canonical order (`expression.hpp`), with every sum rounded to the
/// type: the result is bitwise equal to that of ranks that exchange their sums pairwise. It is reused from step to
/// step, and allocates only for more outputs than ever before.
/// @cost  each input is read once, each output written once; intermediate sums stay in the cache
class CanonicalCombine {
 public:
  /// @param widths  number of leaves of each input, if it is a sum of several; empty: one each
  void operator()(std::span<void* const> outs, std::span<const void* const> ins, std::span<const int> widths,
                  Count count, DType dtype, ReduceOp op, kernels::Residence residence);

 private:
  std::vector<void*> tiles_;  // one tile of each output
};

}  // namespace lockstep::backends
