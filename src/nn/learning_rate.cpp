// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

void check(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  if (step < 0 || total_steps < 1) {
    throw Error(ErrorCode::invalid_argument,
                "no learning rate for step " + std::to_string(step) + " of " + std::to_string(total_steps));
  }
  if (!(schedule.warmup_fraction >= 0 && schedule.warmup_fraction < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "warm-up must take a fraction in [0, 1) of the steps, not " + std::to_string(schedule.warmup_fraction));
  }
}

/// @param progress  how much of the run is over, 0 ≤ progress < 1
double decay_factor(Decay decay, double progress) {
  switch (decay) {
    case Decay::constant: return 1;
    case Decay::step: return progress < 0.5 ? 1 : progress < 0.75 ? 0.1 : 0.01;
    case Decay::cosine: return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return 1;
}

}  // namespace

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  check(schedule, step, total_steps);
  const auto warmup = static_cast<std::int64_t>(schedule.warmup_fraction * static_cast<double>(total_steps));
  const std::int64_t now = std::min(step, total_steps - 1);
  if (now < warmup) return schedule.peak * static_cast<double>(now + 1) / static_cast<double>(warmup + 1);
  // A step decay counts from the start of the run, so that its drops do not move with the warm-up.
  const std::int64_t begin = schedule.decay == Decay::cosine ? warmup : 0;
  const double progress = static_cast<double>(now - begin) / static_cast<double>(total_steps - begin);
  return schedule.peak * decay_factor(schedule.decay, progress);
}

}  // namespace lockstep::nn
