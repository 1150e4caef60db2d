// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>
#include <vector>

namespace emulated_gpu {

std::size_t size_of(ncclDataType_t type);

/// The order in which the ranks' values are added. As in NCCL, each sum is rounded to the type before the next
/// addition.
enum class SumOrder { ring, tree };

/// A reduction: an operator, and an optional factor by which each rank first multiplies its values.
struct Reduction {
  ncclRedOp_t op = ncclSum;  ///< one of NCCL's predefined operators
  bool has_factor = false;
  std::array<std::byte, 8> factor{};   ///< a value of the data's type
  const void* factor_place = nullptr;  ///< where it is read when the operation runs, if it is on the device
};

/// Multiplies values by the reduction's factor, as the rank that contributes them does. @pre it has one
void scale(std::byte* values, std::size_t count, ncclDataType_t type, const Reduction& reduction);
/// Computes to[i] = the reduction of all[rank][i], for elements first + i of the whole, which determine where the ring
/// begins.
/// An average of floating-point values is a sum of values times 1/ranks, rounded; integers are divided afterwards.
/// @param step  number of elements of the whole after which the ring begins one rank further
void fold(const std::vector<const std::byte*>& all, std::byte* to, std::size_t count, ncclDataType_t type,
          const Reduction& reduction, SumOrder order, std::size_t first, std::size_t step);

}  // namespace emulated_gpu
