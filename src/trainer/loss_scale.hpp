// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer/options.hpp"

namespace lockstep::trainer {

/// @throws Error{invalid_argument} if the initial factor is negative or not finite, or the interval not positive
void check(const LossScaleOptions& options);

}  // namespace lockstep::trainer
