// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/split_mix.hpp"
#include "data/random.hpp"
#include "lockstep/data/dataset.hpp"

/// What augmentation draws for a sample.
namespace lockstep::data {

/// Random numbers that depend on {seed, epoch, index} only. Each stream has numbers of its own.
inline Random random_of(const SampleKey& key, RandomStream stream) {
  const auto epoch = static_cast<std::uint64_t>(key.epoch);
  return {key.seed, stream, split_mix::mix(epoch) + static_cast<std::uint64_t>(key.index)};
}

/// Random numbers that depend on {seed, epoch, step} only.
inline Random random_of(const StepKey& key, RandomStream stream) {
  return random_of(SampleKey{.seed = key.seed, .epoch = key.epoch, .index = key.step}, stream);
}

/// How an image is cut out of itself with a border, and whether it is then mirrored.
struct CropAndFlip {
  std::int64_t down = 0;  ///< the row of the image that becomes row 0, −border … border
  std::int64_t right = 0;
  bool is_flipped = false;
};

/// Draws both for every sample, so that flips are the same with and without crops.
inline CropAndFlip draw_crop_and_flip(const SampleKey& key, std::int64_t border) {
  Random random = random_of(key, RandomStream::augment);
  const auto choices = static_cast<std::uint64_t>(2 * border + 1);
  const auto draw = [&] { return static_cast<std::int64_t>(random.below(choices)) - border; };
  const std::int64_t down = draw();
  const std::int64_t right = draw();
  return {down, right, random.chance(0.5)};
}

}  // namespace lockstep::data
