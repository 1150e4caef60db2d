// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/train/options/options.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "nn/description/description.hpp"

namespace lockstep::train {

/// Reads what the checkpoint that --resume means says of its model and of the pictures that enter it. Rank 0 reads the
/// file. Collective.
/// @throws Error on every rank if there is no such checkpoint, or it is not of a classifier of pictures
nn::ModelDescription read_model_of_run(const World& world, const Options& options);

}  // namespace lockstep::train
