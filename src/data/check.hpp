// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "lockstep/data/dataset.hpp"

/// What a data set must keep to, whoever wrote it.
namespace lockstep::data {

/// There is at least one, each has a name of its own, and no extent is less than 1.
/// @param dataset  its name, for the message
/// @throws Error{invalid_argument}, which names the data set, the tensor and the value
void check_tensors(std::string_view dataset, std::span<const TensorSpec> tensors);

/// Both parts are there, have samples, tensors as above, and the same tensors and classes.
/// @throws Error{invalid_argument}, which names the data set and the value
void check_pair(std::string_view dataset, const DatasetPair& pair);

}  // namespace lockstep::data
