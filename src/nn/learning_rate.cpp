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
  require(schedule.warmup_steps >= 0 && schedule.warmup_steps < total_steps, [&] {
    return warmup() + "must end within the run's " + std::to_string(total_steps) +
           " steps: shorten it, or train for longer";
  });
  require(schedule.warmup_steps == 0 || schedule.decay != Decay::one_cycle,
          [&] { return warmup() + "before one cycle, which begins with a warm-up of its own: leave it out"; });
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

}  // namespace

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps) {
  check(schedule, step, total_steps);
  const std::int64_t warmup = schedule.warmup_steps;
  const std::int64_t now = std::min(step, total_steps - 1);
  if (now < warmup) return schedule.peak * static_cast<double>(now + 1) / static_cast<double>(warmup + 1);
  if (schedule.decay == Decay::one_cycle) {
    return schedule.peak *
           one_cycle(schedule.final_fraction, static_cast<double>(now), static_cast<double>(total_steps));
  }
  const std::int64_t begin = schedule.decay == Decay::step ? 0 : warmup;
  const double progress = static_cast<double>(now - begin) / static_cast<double>(total_steps - begin);
  return schedule.peak * decay_factor(schedule, progress);
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
  }
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
