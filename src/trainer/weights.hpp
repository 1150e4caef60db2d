// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/store.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::trainer {

/// Overwrites parameters and running statistics with the tensors of a file, which rank 0 reads; EMA weights begin with
/// the new parameters. Collective.
/// @throws as Trainer::load_weights
LoadedWeights load_weights(ProcessGroup& group, const std::filesystem::path& path, Store& store, WeightsMatch match);

}  // namespace lockstep::trainer
