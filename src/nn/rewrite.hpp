// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/schedule.hpp"

/// Passes over a schedule that change how a step is computed, but none of its results.
namespace lockstep::nn {

/// Recomputes values that are kept for the backward pass only, if their operators can. A recomputation comes right
/// before its first reader in the backward pass, so the memory is free in between.
Schedule recompute(Schedule schedule);
/// Removes the sum of two gradients if its only reader can take the two terms.
Schedule fold_sums(Schedule schedule);
/// Lets an operator write its input's gradient over its output's gradient, if it can.
Schedule share_gradients(Schedule schedule);

}  // namespace lockstep::nn
