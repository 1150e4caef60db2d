// SPDX-License-Identifier: Apache-2.0
#include "kernels/peak.hpp"

#include "kernels/vectorized.hpp"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t sums_of_all = flops_per_round / 2;
constexpr std::int64_t vector_bytes = 64;

/// This file is compiled with contraction, so a multiplication and an addition become one instruction where the
/// processor has it.
template <typename T>
LOCKSTEP_INLINE T multiply_add(std::int64_t rounds) {
  constexpr std::int64_t lanes = vector_bytes / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t chains = sums_of_all / lanes;
  using Vector [[gnu::vector_size(vector_bytes)]] = T;
  Vector sums[chains];
  for (std::int64_t chain = 0; chain < chains; ++chain)
    sums[chain] = Vector{} + static_cast<T>(chain + 3);  // all different, so that the compiler keeps all chains
  // The values stay normal and bounded, because s = s / 2 + 1 tends to 2.
  const Vector half = Vector{} + T{0.5};
  const Vector one = Vector{} + T{1};
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Vector& sum : sums) sum = sum * half + one;
  }
  T total = 0;
  for (const Vector& sum : sums)
    for (std::int64_t lane = 0; lane < lanes; ++lane) total += sum[lane];
  return total;
}

}  // namespace

LOCKSTEP_FUSED float multiply_add_float32(std::int64_t rounds) { return multiply_add<float>(rounds); }
LOCKSTEP_FUSED double multiply_add_float64(std::int64_t rounds) { return multiply_add<double>(rounds); }

}  // namespace lockstep::kernels
