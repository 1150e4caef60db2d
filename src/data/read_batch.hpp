// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Reads consecutive samples of a batch into their slots of each tensor. Threads may read different samples at the same
/// time.
/// @param key      seed and epoch of all samples
/// @param indices  the samples of the batch, by index in the data set
/// @param next     position in the batch of the first sample to be read; afterwards that of the first one that is not
///                 read, which is `end`, unless the data set has thrown
/// @param tensors  each is filled by the samples of the batch
/// @param slots    scratch, one for each tensor
inline void read_range(const Dataset& dataset, SampleKey key, std::span<const std::int64_t> indices, std::size_t& next,
                       std::size_t end, std::span<const Buffer> tensors, std::span<Buffer> slots) {
  for (; next < end; ++next) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Count each{tensors[i].count.value / static_cast<std::int64_t>(indices.size())};
      slots[i] = slice(tensors[i], {static_cast<std::int64_t>(next) * each.value}, each);
    }
    key.index = indices[next];
    dataset.read(key, slots);
  }
}

/// Reads all samples of a batch.
inline void read_batch(const Dataset& dataset, const SampleKey& key, std::span<const std::int64_t> indices,
                       std::span<const Buffer> tensors, std::span<Buffer> slots) {
  std::size_t next = 0;
  read_range(dataset, key, indices, next, indices.size(), tensors, slots);
}

}  // namespace lockstep::data
