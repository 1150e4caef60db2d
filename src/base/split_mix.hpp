// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// @source Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014 (SplitMix64)
namespace lockstep::split_mix {

/// The step from one state of the generator to the next.
inline constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15ULL;

/// Returns the output of the generator for a state: a bijection that scatters consecutive numbers.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace lockstep::split_mix
