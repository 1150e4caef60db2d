// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Reads all samples of a batch. @param tensors  each is filled by the samples
inline void read_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                         std::span<const Buffer> tensors) {
  std::vector<Buffer> slots(tensors.size());
  for (std::size_t sample = 0; sample < indices.size(); ++sample) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Count each{tensors[i].count.value / static_cast<std::int64_t>(indices.size())};
      slots[i] = slice(tensors[i], {static_cast<std::int64_t>(sample) * each.value}, each);
    }
    dataset.read({.index = indices[sample]}, slots);
  }
}

}  // namespace lockstep::data
