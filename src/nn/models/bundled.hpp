// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/nn/models.hpp"

/// Returns the models that come with lockstep. Each has a file `some-model.cpp` that defines `ModelEntry some_model()`;
/// the build finds it by its name.
namespace lockstep::nn::models {

std::vector<ModelEntry> bundled();

}  // namespace lockstep::nn::models
