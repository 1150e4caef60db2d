// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "lockstep/data/dataset.hpp"

/// Checks that every data set must pass.
namespace lockstep::data {

/// Checks that there is at least one tensor, that their names are different and not empty, and that no extent is below
/// 1.
/// @param dataset  name of the data set, for the message
/// @throws Error{invalid_argument} that names the data set, the tensor and the value
void check_tensors(std::string_view dataset, std::span<const TensorSpec> tensors);

/// Checks that both parts exist, have samples, pass check_tensors(), and have the same tensors and classes.
/// @throws Error{invalid_argument} that names the data set and the value
void check_pair(std::string_view dataset, const DatasetPair& pair);

}  // namespace lockstep::data
