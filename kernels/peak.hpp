// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The peak arithmetic rate of a processor, with which other loops are compared.
namespace lockstep::kernels {

/// Number of multiplications and additions in a round of the functions below.
inline constexpr std::int64_t flops_per_round = 2 * 128;

/// Multiplies and adds in registers for `rounds` rounds, with 128 independent sums. @return their sum
float multiply_add_float32(std::int64_t rounds);
double multiply_add_float64(std::int64_t rounds);

}  // namespace lockstep::kernels
