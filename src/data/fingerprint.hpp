// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// Returns a hash for each tensor, by which ranks find that they have different data. It covers the result of `read`,
/// in the order of the samples, as float32 and int32. It is no defense against malice.
/// @param most_samples  maximum number of samples to hash; of a larger data set, samples at equal distances are hashed
/// @return name and hash of each tensor
/// @cost reads the samples once; hashing itself runs at the speed of memory
std::vector<std::pair<std::string, std::uint64_t>> fingerprint(const Dataset& dataset, std::int64_t most_samples);

}  // namespace lockstep::data
