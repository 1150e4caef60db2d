// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/nn/models.hpp"

/// A file for each model that comes with lockstep: `some-model.cpp` defines `ModelEntry some_model()`, and is found by
/// its name.
namespace lockstep::nn::models {

std::vector<ModelEntry> bundled();

}  // namespace lockstep::nn::models
