// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Hashes by which ranks find that they have different data: for each tensor one of what `read` gives, in the order of
/// the samples, as float32 and int32. No defense against malice.
/// @param most_samples  more are represented by so many at equal distances
/// @return name and hash of each tensor
/// @cost reads the samples once; hashing itself runs at the speed of memory
std::vector<std::pair<std::string, std::uint64_t>> fingerprint(const Dataset& dataset, std::int64_t most_samples);

}  // namespace lockstep::data
