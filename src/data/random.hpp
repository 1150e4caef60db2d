// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/split_mix.hpp"

namespace lockstep::data {

/// The purpose of random numbers. Each purpose has its own stream of a seed, and streams do not overlap.
enum class RandomStream : std::uint64_t {
  shuffle = 1,
  digits_train,
  digits_test,
  cifar_train,
  cifar_test,
  scenes_train,
  scenes_test,
  words_train,
  words_test,
  augment,
  imagenet_train,
  imagenet_test,
  resized_crop,
  color_jitter,
  step_extents,
  mosaic,
  affine,
  hsv,
  scale,
  random_crop
};

/// Random numbers that depend on the key only, so that sample 7 of epoch 3 is the same on every rank and at any time.
class Random {
 public:
  Random(std::uint64_t seed, RandomStream stream, std::uint64_t index)
      : state_(split_mix::mix(split_mix::mix(split_mix::mix(seed) + static_cast<std::uint64_t>(stream)) + index)) {}

  std::uint64_t next() { return split_mix::mix(state_ += split_mix::golden_ratio); }

  /// Returns a number with 0 ≤ result < 1.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }

  /// Returns a number with 0 ≤ result < bound, all equally likely: the lowest 2⁶⁴ mod bound values are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;
    std::uint64_t value = next();
    while (value < excess) value = next();
    return value % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::data
