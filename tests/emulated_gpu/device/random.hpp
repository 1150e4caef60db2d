// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace emulated_gpu {

/// Random numbers that a seed repeats on every machine.
/// @source Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 (SplitMix64)
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t draw() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// Returns one of 0, …, n − 1. @pre n > 0
  std::uint64_t below(std::uint64_t n) { return draw() % n; }
  /// Returns true once in n.
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace emulated_gpu
