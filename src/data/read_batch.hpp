// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Reads one sample of a batch into its slot of each tensor. Threads may read different samples at the same time.
/// @param key      seed and epoch
/// @param indices  the samples of the batch, by index in the data set
/// @param sample   position of the sample in the batch
/// @param tensors  each is filled by the samples of the batch
/// @param slots    scratch, one for each tensor
inline void read_sample(const Dataset& dataset, SampleKey key, std::span<const std::int64_t> indices,
                        std::size_t sample, std::span<const Buffer> tensors, std::span<Buffer> slots) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Count each{tensors[i].count.value / static_cast<std::int64_t>(indices.size())};
    slots[i] = slice(tensors[i], {static_cast<std::int64_t>(sample) * each.value}, each);
  }
  key.index = indices[sample];
  dataset.read(key, slots);
}

/// Reads all samples of a batch, as read_sample().
inline void read_batch(const Dataset& dataset, SampleKey key, std::span<const std::int64_t> indices,
                       std::span<const Buffer> tensors, std::span<Buffer> slots) {
  for (std::size_t sample = 0; sample < indices.size(); ++sample)
    read_sample(dataset, key, indices, sample, tensors, slots);
}

}  // namespace lockstep::data
