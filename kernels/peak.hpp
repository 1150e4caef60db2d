// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What a processor can do at best, to measure other loops by.
namespace lockstep::kernels {

/// Multiplications and additions in a round of the functions below.
inline constexpr std::int64_t flops_per_round = 2 * 128;

/// Multiplies and adds in registers, in so many rounds, 128 sums beside each other. @return their sum
float multiply_add_float32(std::int64_t rounds);
double multiply_add_float64(std::int64_t rounds);

}  // namespace lockstep::kernels
