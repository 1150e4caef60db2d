// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/wrapped.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

/// OneCycleLR's default `pct_start`, and the reciprocal of its `div_factor`.
constexpr double growing_part = 0.3;
constexpr double initial_fraction = 1 / 25.0;

/// @param message  returns the text, which is not made in each step
template <typename Message>
void require(bool holds, const Message& message) {
  if (!holds) throw Error(ErrorCode::invalid_argument, message());
}

std::string number_text(double number) { return format_text("%g", number); }

void check_shape(const LearningRateSchedule& schedule) {
  double before = 0;
  for (const double milestone : schedule.milestones) {
    require(milestone > before && milestone < 1, [&] {
      return "a milestone at " + number_text(milestone) + " of the run: milestones are above 0, below 1 and ascending";
    });
    before = milestone;
  }
  require(schedule.gamma > 0, [&] { return "a gamma of " + number_text(schedule.gamma) + ": it must be above 0"; });
  require(schedule.power > 0, [&] { return "a power of " + number_text(schedule.power) + ": it must be above 0"; });
  require(schedule.final_fraction >= 0 && schedule.final_fraction <= 1, [&] {
    return "a final learning rate of " + number_text(schedule.final_fraction) +
           " times the peak: it must be 0 to 1 times";
  });
}

void check(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  require(step >= 0 && total_steps >= 1,
          [&] { return "no learning rate for step " + std::to_string(step) + " of " + std::to_string(total_steps); });
  const auto warmup = [&] { return "a warm-up over " + std::to_string(schedule.warmup_steps) + " steps "; };
  const bool ends = schedule.warmup_steps < total_steps || schedule.steps_per_epoch > 0;
  require(schedule.warmup_steps >= 0 && ends, [&] {
    return warmup() + "must end within the run's " + std::to_string(total_steps) +
           " steps: shorten it, or train for longer";
  });
  require(schedule.warmup_steps == 0 || schedule.decay != Decay::one_cycle,
          [&] { return warmup() + "before one cycle, which begins with a warm-up of its own: leave it out"; });
  require(schedule.steps_per_epoch == 0 || (schedule.steps_per_epoch > 0 && schedule.decay != Decay::one_cycle), [&] {
    return "epochs of " + std::to_string(schedule.steps_per_epoch) +
           " steps, in which the rate does not change: give at least 1, and another schedule than one cycle";
  });
  check_shape(schedule);
}

/// @param progress  0 at `from`, 1 at `to`
double along_cosine(double from, double to, double progress) {
  return to + (from - to) * (0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

double one_cycle(double final_fraction, double step, double total_steps) {
  const double top = growing_part * total_steps - 1;  // a fraction, or negative in a run of at most 3 steps
  if (step <= top) return along_cosine(initial_fraction, 1, step / top);
  return along_cosine(1, final_fraction, (step - top) / (total_steps - 1 - top));
}

/// @param progress  the fraction of the steps from which the rate falls that are over, 0 ≤ progress < 1
double decay_factor(const LearningRateSchedule& schedule, double progress) {
  const double end = schedule.final_fraction;
  switch (schedule.decay) {
    case Decay::constant:
    case Decay::one_cycle: break;
    case Decay::step: {
      const auto passed = std::upper_bound(schedule.milestones.begin(), schedule.milestones.end(), progress);
      return std::pow(schedule.gamma, static_cast<double>(passed - schedule.milestones.begin()));
    }
    case Decay::cosine: return along_cosine(1, end, progress);
    case Decay::polynomial: return end + (1 - end) * std::pow(1 - progress, schedule.power);
  }
  return 1;
}

std::string milestones_text(const LearningRateSchedule& schedule, const std::string& steps) {
  std::string text = "multiplied by " + number_text(schedule.gamma) + " at ";
  for (const double milestone : schedule.milestones)
    text += (milestone == schedule.milestones.front() ? "" : ", ") + number_text(milestone);
  return text + " of " + steps + " steps";
}

/// Returns what stands between two numbers in step `step` of the warm-up. @pre it has steps
double along_warmup(double from, double to, std::int64_t step, std::int64_t warmup) {
  return from + (to - from) * (static_cast<double>(step) / static_cast<double>(warmup));
}

/// Returns the rate without its warm-up, where it changes from epoch to epoch.
double rate_of_epoch(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  const std::int64_t first = step / schedule.steps_per_epoch * schedule.steps_per_epoch;
  return schedule.peak * decay_factor(schedule, static_cast<double>(first) / static_cast<double>(total_steps));
}

/// Returns the rate of step `now` after its warm-up, or without it where the rate changes from epoch to epoch.
double rate_after_warmup(const LearningRateSchedule& schedule, std::int64_t now, std::int64_t total_steps) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (schedule.steps_per_epoch > 0) return rate_of_epoch(schedule, now, total_steps);
  if (now < warmup) return schedule.peak;
  if (schedule.decay == Decay::one_cycle) {
    return schedule.peak *
           one_cycle(schedule.final_fraction, static_cast<double>(now), static_cast<double>(total_steps));
  }
  const std::int64_t begin = schedule.decay == Decay::step ? 0 : warmup;
  const double progress = static_cast<double>(now - begin) / static_cast<double>(total_steps - begin);
  return schedule.peak * decay_factor(schedule, progress);
}

}  // namespace

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  check(schedule, step, total_steps);
  const std::int64_t warmup = schedule.warmup_steps;
  const std::int64_t now = std::min(step, total_steps - 1);
  const double rate = rate_after_warmup(schedule, now, total_steps);
  if (now >= warmup) return rate;
  if (!schedule.warmup_start) return rate * static_cast<double>(now + 1) / static_cast<double>(warmup + 1);
  return along_warmup(*schedule.warmup_start * rate, rate, now, warmup);
}

StepRates step_rates(const LearningRateSchedule& schedule, double momentum, std::int64_t step,
                     std::int64_t total_steps) {
  StepRates rates{.learning_rate = learning_rate(schedule, step, total_steps)};
  rates.bias_learning_rate = rates.learning_rate;
  const std::int64_t warmup = schedule.warmup_steps;
  const std::int64_t now = std::min(step, total_steps - 1);
  if (now >= warmup) return rates;
  if (schedule.warmup_bias_rate) {
    const double rate = rate_after_warmup(schedule, now, total_steps);
    rates.bias_learning_rate = along_warmup(*schedule.warmup_bias_rate, rate, now, warmup);
  }
  if (schedule.warmup_momentum) rates.momentum = along_warmup(*schedule.warmup_momentum, momentum, now, warmup);
  return rates;
}

std::int64_t AccumulationSchedule::steps(std::int64_t step) const {
  if (nominal_batch == 0) return 1;
  const double most = static_cast<double>(nominal_batch) / static_cast<double>(batch);
  const double now = step < warmup_steps ? along_warmup(1, most, step, warmup_steps) : most;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::nearbyint(now)));
}

std::int64_t warmup_steps(double epochs, std::int64_t steps_per_epoch) {
  constexpr double rounding = 1e-9;  // 0.29 · 100 is 28.999999999999996
  return static_cast<std::int64_t>(epochs * static_cast<double>(steps_per_epoch) + rounding);
}

std::string to_text(const LearningRateSchedule& schedule, std::int64_t total_steps) {
  const std::string steps = std::to_string(total_steps);
  const std::string to_the_end = " to " + number_text(schedule.peak * schedule.final_fraction) + " at step " + steps;
  std::string text = number_text(schedule.peak);
  if (schedule.warmup_steps > 0) {
    text += " after a linear warm-up over " + std::to_string(schedule.warmup_steps) +
            (schedule.warmup_steps == 1 ? " step" : " steps");
    if (schedule.warmup_start) text += " from " + number_text(schedule.peak * *schedule.warmup_start);
    if (schedule.warmup_bias_rate) text += ", of biases from " + number_text(*schedule.warmup_bias_rate);
    if (schedule.warmup_momentum)
      text += ", with a momentum that begins with " + number_text(*schedule.warmup_momentum);
  }
  if (schedule.steps_per_epoch > 0) text += ", from epoch to epoch";
  switch (schedule.decay) {
    case Decay::constant: return text + ", constant";
    case Decay::step: return text + ", " + milestones_text(schedule, steps);
    case Decay::cosine: return text + ", then cosine decay" + to_the_end;
    case Decay::polynomial:
      return text + ", then " +
             (schedule.power == 1 ? "linear decay" : "polynomial decay of power " + number_text(schedule.power)) +
             to_the_end;
    case Decay::one_cycle:
      return "from " + number_text(schedule.peak * initial_fraction) + " to " + text + " in 30 % of " + steps +
             " steps, then cosine decay" + to_the_end;
  }
  return text;
}

}  // namespace lockstep::nn
