// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace emulated_gpu {

std::size_t size_of(ncclDataType_t type);

/// In which order the ranks' values are added. As in NCCL each sum is rounded to the type before it goes to the next.
enum class SumOrder { ring, tree };

/// What a reduction does with values: an operator, after each was multiplied by a factor where there is one.
struct Reduction {
  ncclRedOp_t op = ncclSum;  ///< one of NCCL's own
  bool has_factor = false;
  double factor = 1;
};

/// to[i] = the reduction of all[rank][i], for elements first + i of the whole, which decide where a ring begins.
/// @param step  elements of the whole after which the ring begins one rank further
void fold(const std::vector<const std::byte*>& all, std::byte* to, std::size_t count, ncclDataType_t type,
          const Reduction& reduction, SumOrder order, std::size_t first, std::size_t step);

}  // namespace emulated_gpu
