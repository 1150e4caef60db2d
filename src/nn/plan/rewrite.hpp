// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/plan/step_plan.hpp"

/// Passes over a plan that change how a step is computed, but none of its results.
namespace lockstep::nn {

/// Recomputes values that are kept for the backward pass only, if their operators can. A recomputation comes right
/// before its first reader in the backward pass, so the memory is free in between.
StepPlan recompute(StepPlan plan);
/// Removes the sum of two gradients if its only reader can take the two terms.
StepPlan fuse_sums(StepPlan plan);
/// Lets an operator write its input's gradient over its output's gradient, if it can.
StepPlan share_gradients(StepPlan plan);

}  // namespace lockstep::nn
