// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Reads samples into consecutive slots of the tensors, which they fill.
/// @param key    seed and epoch of all samples
/// @param slots  scratch, one for each tensor
inline void read_batch(const Dataset& dataset, SampleKey key, std::span<const std::int64_t> indices,
                       std::span<const Buffer> tensors, std::span<Buffer> slots) {
  for (std::size_t sample = 0; sample < indices.size(); ++sample) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Count each{tensors[i].count.value / static_cast<std::int64_t>(indices.size())};
      slots[i] = slice(tensors[i], {static_cast<std::int64_t>(sample) * each.value}, each);
    }
    key.index = indices[sample];
    dataset.read(key, slots);
  }
}

/// Returns a hash for each tensor, by which ranks find that they have different data. It covers the result of `read`,
/// in the order of the samples, as float32 and int32. It is no defense against malice.
/// @param most_samples  maximum number of samples to hash; of a larger data set, samples at equal distances are hashed
/// @return name and hash of each tensor
/// @cost reads the samples once; hashing itself runs at the speed of memory
std::vector<std::pair<std::string, std::uint64_t>> fingerprint(const Dataset& dataset, std::int64_t most_samples);

}  // namespace lockstep::data
