// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::nn {

/// The decay of the learning rate after the warm-up.
enum class Decay {
  constant,    ///< the peak throughout
  step,        ///< multiplied by `gamma` at each of the `milestones`
  cosine,      ///< half a period of the cosine, from the peak to the final rate (Loshchilov & Hutter 2017, no restarts)
  polynomial,  ///< (1 − progress)^`power`, from the peak to the final rate; with a power of 1 along a line
  one_cycle,   ///< from peak ÷ 25 up to the peak in 30 % of the run, then down to the final rate, both along a cosine
};

/// The final fraction that belongs to `Decay::one_cycle`: PyTorch's 1 ÷ (div_factor · final_div_factor).
constexpr double one_cycle_final_fraction = 1 / 25e4;

/// How the learning rate changes over a run of T steps. Step t, counted from 0, gets the rate that PyTorch's optimizer
/// has after t calls of `scheduler.step()` on these schedulers, with w warm-up steps:
///
/// - the warm-up: LinearLR(start_factor = 1 ÷ (w + 1), total_iters = w). Step w is the first one with the peak;
/// - `cosine`, `polynomial`: SequentialLR, which starts CosineAnnealingLR(T_max = T − w, eta_min) or
///   PolynomialLR(total_iters = T − w, power) when the warm-up is over. The decay takes all remaining steps;
/// - `step`: ChainedScheduler, which multiplies the warm-up with MultiStepLR. The milestones count from the start of
///   the run, as those of PaddleDetection and Detectron2 do, so that they do not move with the warm-up. Under
///   SequentialLR they would count from its end. The warm-up itself is not multiplied, so no milestone should be within
///   it;
/// - `one_cycle`: OneCycleLR(total_steps = T) in its default form with two phases, but without cycling the momentum:
///   the momentum is an option of the optimizer, which a schedule of learning rates does not change. The cycle begins
///   with a warm-up of its own, so there can be no other.
///
/// With `steps_per_epoch` the rate changes from epoch to epoch only, as with schedulers that step once an epoch: step t
/// has the progress of the first step of its epoch, which counts from the start of the run. The warm-up multiplies this
/// rate, and may then be longer than the run.
///
/// The final rate is that of step T, which is the first one after the run; only `one_cycle` has it in step T − 1.
/// PyTorch's PolynomialLR always ends at 0; other final rates follow PaddlePaddle's PolynomialDecay(end_lr).
struct LearningRateSchedule {
  double peak = 0.05;
  Decay decay = Decay::constant;
  std::int64_t warmup_steps = 0;  ///< the rate grows linearly up to the peak in these first steps of the run
  /// Fractions of the run, 0 < m < 1, ascending. The defaults are those of He et al. 2016.
  std::vector<double> milestones = {0.5, 0.75};
  double gamma = 0.1;                ///< factor of `step` at each milestone, above 0
  double power = 1;                  ///< exponent of `polynomial`, above 0
  double final_fraction = 0;         ///< final rate ÷ peak of `cosine`, `polynomial` and `one_cycle`, 0 to 1
  std::int64_t steps_per_epoch = 0;  ///< 0: the rate changes from step to step
  /// Factor of the rate in the first step of the warm-up; none: 1 ÷ (w + 1). Step w is the first one without a factor.
  std::optional<double> warmup_start = {};
  /// Rate of biases in the first step of the warm-up, from which it goes along a line to that of step w; none: as
  /// others.
  std::optional<double> warmup_bias_rate = {};
  std::optional<double> warmup_momentum = {};  ///< momentum of the first step, likewise; none: always the optimizer's
};

/// Returns the learning rate of step `step`, counted from 0, in a run of `total_steps`. It depends on its arguments
/// only, so that a resumed run continues with the same rates. Steps past the end get the last step's rate.
/// @throws Error{invalid_argument} if `step` is negative, `total_steps` not positive, a value of the schedule out of
///         its range, or the warm-up not shorter than the run
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps);

/// The numbers of an update that change during a run.
struct StepRates {
  double learning_rate = 0;
  double bias_learning_rate = 0;
  double momentum = -1;  ///< negative: that of the optimizer

  friend bool operator==(const StepRates&, const StepRates&) = default;
};

/// Returns the numbers of step `step`, as `learning_rate` does. @param momentum  of the optimizer
/// @throws as learning_rate
StepRates step_rates(const LearningRateSchedule& schedule, double momentum, std::int64_t step,
                     std::int64_t total_steps);

/// When weights are updated in a run whose gradients are added up over steps: the number of steps of an update grows
/// linearly over the warm-up, from 1 to nominal batch ÷ batch, rounded, and is at least 1. What has been added at the
/// end of an epoch is dropped, and its steps still count.
struct AccumulationSchedule {
  std::int64_t nominal_batch = 0;  ///< 0: each step makes an update
  std::int64_t batch = 1;          ///< global batch
  std::int64_t warmup_steps = 0;

  /// Returns after how many steps since the last update there is another one, in step `step`, counted from 0.
  [[nodiscard]] std::int64_t steps(std::int64_t step) const;
  /// Returns the number of steps of an update after the warm-up.
  [[nodiscard]] std::int64_t most_steps() const { return steps(warmup_steps); }
};

/// The number of whole steps of a warm-up that is given in epochs, which may be a fraction. @pre neither is negative
std::int64_t warmup_steps(double epochs, std::int64_t steps_per_epoch);

/// The schedule in words: "0.05 after a linear warm-up over 14 steps, then cosine decay to 0 at step 282".
std::string to_text(const LearningRateSchedule& schedule, std::int64_t total_steps);

}  // namespace lockstep::nn
