// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "apps/train/options/options.hpp"
#include "lockstep/mpi/world.hpp"
#include "nn/description/description.hpp"

namespace lockstep::train {

/// Reads what the weights that --predict or --eval-only takes say of their model and of the pictures that enter it.
/// Rank 0 reads the file. Collective.
/// @return nothing for a run without these options, or, with --eval-only, on other data than pictures, or if the file
///         does not say it
/// @throws Error on every rank if there is no such checkpoint, or with --predict, if it is not of a classifier of
///         pictures
std::optional<nn::ModelDescription> read_model_of_run(const World& world, const Options& options);

}  // namespace lockstep::train
