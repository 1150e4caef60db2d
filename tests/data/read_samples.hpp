// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/read_batch.hpp"

namespace lockstep::data {

/// Reads samples into the tensors, which they fill.
inline void read_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                         std::span<const Buffer> tensors) {
  std::vector<Buffer> slots(tensors.size());
  read_batch(dataset, {}, indices, tensors, slots);
}

}  // namespace lockstep::data
