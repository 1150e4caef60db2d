// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/loss_scale.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::trainer {

LossScale::LossScale(const LossScaleOptions& options) : factor_(options.initial), interval_(options.interval) {
  if (!(options.initial >= 0) || !std::isfinite(options.initial)) {
    throw Error(ErrorCode::invalid_argument,
                "a loss cannot be scaled by " + std::to_string(options.initial) + "; use 0 for no scale");
  }
  if (options.interval < 1) {
    throw Error(ErrorCode::invalid_argument,
                "a loss scale cannot grow every " + std::to_string(options.interval) + " steps; at least 1 is needed");
  }
}

void LossScale::update(bool finite) {
  if (factor_ == 0) return;
  if (finite && ++steps_ < interval_) return;
  // Scaling by powers of two does not round. The limits are far from overflow and underflow.
  factor_ = finite ? std::min(2 * factor_, 0x1p120) : std::max(factor_ / 2, 1.0);
  steps_ = 0;
}

void LossScale::restore(double state, std::int64_t steps) {
  if (factor_ == 0 || state == 0) return;  // this run decides whether there is a loss scale
  factor_ = state;
  steps_ = steps;
}

}  // namespace lockstep::trainer
