// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::data {

/// What a random number is for: streams of one seed that do not meet.
enum class Stream : std::uint64_t { shuffle = 1, digits_train, digits_test, cifar_train, cifar_test };

/// Random numbers that depend on the key alone, so that sample 7 of epoch 3 is the same whoever draws it and when.
/// @source Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014 (SplitMix64)
class Random {
 public:
  Random(std::uint64_t seed, Stream stream, std::uint64_t index)
      : state_(mix(mix(mix(seed) + static_cast<std::uint64_t>(stream)) + index)) {}

  std::uint64_t next() { return mix(state_ += golden_ratio); }

  /// 0 ≤ result < 1
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }

  /// 0 ≤ result < bound, each as likely: values of the last, incomplete run of `bound` are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;
    std::uint64_t value = next();
    while (value < excess) value = next();
    return value % bound;
  }

 private:
  static constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15ULL;

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace lockstep::data
