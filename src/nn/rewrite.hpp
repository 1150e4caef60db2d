// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/schedule.hpp"

/// Passes over a schedule that change how it is computed, and no result.
namespace lockstep::nn {

/// What is kept for the backward pass only, and can be computed again by its operator, is: right before its first
/// reader there. In between its memory is free.
Schedule recompute(Schedule schedule);
/// The sum of two gradients is left to the operator that reads it, where that is the only one and takes two.
Schedule fold_sums(Schedule schedule);
/// A gradient that an operator can leave where that of its output has been lies there.
Schedule share_gradients(Schedule schedule);

}  // namespace lockstep::nn
