// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

/// @throws Error{invalid_argument} if the initial factor is negative or not finite, or the interval not positive
void check(const LossScaleOptions& options);

/// The factor of the current step; 1 without loss scaling.
inline double loss_factor(const RunState& run) { return run.loss_scale == 0 ? 1 : run.loss_scale; }

/// Updates the loss scale after a step. All ranks do it alike.
/// @param finite  whether all values of the step were finite
void update_loss_scale(RunState& run, bool finite, const LossScaleOptions& options);

}  // namespace lockstep::trainer
