// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss_scale.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::trainer {

void check(const LossScaleOptions& options) {
  if (!(options.initial >= 0) || !std::isfinite(options.initial)) {
    throw Error(ErrorCode::invalid_argument,
                "a loss cannot be scaled by " + std::to_string(options.initial) + "; use 0 for no scale");
  }
  if (options.interval < 1) {
    throw Error(ErrorCode::invalid_argument,
                "a loss scale cannot grow every " + std::to_string(options.interval) + " steps; at least 1 is needed");
  }
}

void update_loss_scale(RunState& run, bool finite, const LossScaleOptions& options) {
  if (run.loss_scale == 0) return;
  if (finite && ++run.scaled_steps < options.interval) return;
  // Scaling by powers of two does not round. The limits are far from overflow and underflow.
  run.loss_scale = finite ? std::min(2 * run.loss_scale, 0x1p120) : std::max(run.loss_scale / 2, 1.0);
  run.scaled_steps = 0;
}

}  // namespace lockstep::trainer
