// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss_scale.hpp"

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

}  // namespace lockstep::trainer
