// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/train/options.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

/// Performs one run from start to end: prints the cluster, loads the data, trains, reports. Collective.
/// @return the exit code
int run_session(World& world, const Options& options, const Registry& registry);

}  // namespace lockstep::train
