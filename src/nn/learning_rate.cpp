// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

void check(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  if (step < 0 || total_steps < 1) {
    throw Error(ErrorCode::invalid_argument,
                "no learning rate for step " + std::to_string(step) + " of " + std::to_string(total_steps));
  }
  if (schedule.warmup_steps < 0 || schedule.warmup_steps >= total_steps) {
    throw Error(ErrorCode::invalid_argument, "a warm-up over " + std::to_string(schedule.warmup_steps) +
                                                 " steps must end within the run's " + std::to_string(total_steps));
  }
}

/// @param progress  the fraction of the run that is over, 0 ≤ progress < 1
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
  const std::int64_t warmup = schedule.warmup_steps;
  const std::int64_t now = std::min(step, total_steps - 1);
  if (now < warmup) return schedule.peak * static_cast<double>(now + 1) / static_cast<double>(warmup + 1);
  // Step decay counts from the start of the run, so that its drops do not move with the warm-up.
  const std::int64_t begin = schedule.decay == Decay::cosine ? warmup : 0;
  const double progress = static_cast<double>(now - begin) / static_cast<double>(total_steps - begin);
  return schedule.peak * decay_factor(schedule.decay, progress);
}

std::int64_t warmup_steps(double epochs, std::int64_t steps_per_epoch) {
  constexpr double rounding = 1e-9;  // 0.29 · 100 is 28.999999999999996
  return static_cast<std::int64_t>(epochs * static_cast<double>(steps_per_epoch) + rounding);
}

std::string to_text(const LearningRateSchedule& schedule, std::int64_t total_steps) {
  std::ostringstream text;
  text << schedule.peak;
  if (schedule.warmup_steps > 0) {
    text << " after a linear warm-up over " << schedule.warmup_steps
         << (schedule.warmup_steps == 1 ? " step" : " steps");
  }
  switch (schedule.decay) {
    case Decay::constant: text << ", constant"; break;
    case Decay::step: text << ", divided by 10 at 1/2 and at 3/4 of " << total_steps << " steps"; break;
    case Decay::cosine: text << ", then cosine decay to 0 at step " << total_steps; break;
  }
  return text.str();
}

}  // namespace lockstep::nn
