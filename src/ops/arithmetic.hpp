// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::ops {

/// Names the instruction set that the loader selects for loops that are compiled for several
/// (`kernels/vectorized.hpp`). Results differ in their bits if sums are made in vectors of other lengths, or if
/// products are not rounded before they are added.
inline std::string instruction_set_of_loops() {
  if (__builtin_cpu_supports("avx512f") != 0) return "loops avx512f";
  if (__builtin_cpu_supports("fma") != 0) return __builtin_cpu_supports("avx2") != 0 ? "loops avx2, fma" : "loops fma";
  return "loops plain";
}

}  // namespace lockstep::ops
