// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/run/run.hpp"
#include "lockstep/trainer/trainer.hpp"

/// What a run begins with: a checkpoint, a file of weights, or drawn weights.
namespace lockstep::train {

/// Continues from the checkpoint that --resume means. Collective.
/// @param library  the name of the compute library for users
/// @return on rank 0, lines that say from which one, and why newer ones were refused; empty without --resume
std::string resume(const RunContext& context, trainer::Trainer& trainer, const std::string& library);

/// Loads the weights that --weights, or with --eval-only --resume, means, unless the run has been resumed. Collective.
/// @return on rank 0, lines that say which tensors were loaded; empty if none were
/// @throws as Trainer::load_weights
std::string load_weights(const RunContext& run, trainer::Trainer& trainer);

}  // namespace lockstep::train
