// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
/// the
///   run, as those of PaddleDetection and Detectron2 do, so that they do not move with the warm-up. Under SequentialLR
///   they would count from its end. The warm-up itself is not multiplied, so no milestone should be within it;
/// - `one_cycle`: OneCycleLR(total_steps = T) in its default form with two phases, but without cycling the momentum:
/// the
///   momentum is an option of the optimizer, which a schedule of learning rates does not change. The cycle begins with
///   a warm-up of its own, so there can be no other.
///
/// The final rate is that of step T, which is the first one after the run; only `one_cycle` has it in step T − 1.
/// PyTorch's PolynomialLR always ends at 0; other final rates follow PaddlePaddle's PolynomialDecay(end_lr).
struct LearningRateSchedule {
  double peak = 0.05;
  Decay decay = Decay::constant;
  std::int64_t warmup_steps = 0;  ///< the rate grows linearly up to the peak in these first steps of the run
  /// Fractions of the run, 0 < m < 1, ascending. The defaults are those of He et al. 2016.
  std::vector<double> milestones = {0.5, 0.75};
  double gamma = 0.1;         ///< factor of `step` at each milestone, above 0
  double power = 1;           ///< exponent of `polynomial`, above 0
  double final_fraction = 0;  ///< final rate ÷ peak of `cosine`, `polynomial` and `one_cycle`, 0 to 1
};

/// Returns the learning rate of step `step`, counted from 0, in a run of `total_steps`. It depends on its arguments
/// only, so that a resumed run continues with the same rates. Steps past the end get the last step's rate.
/// @throws Error{invalid_argument} if `step` is negative, `total_steps` not positive, a value of the schedule out of
/// its
///         range, or the warm-up not shorter than the run
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps);

/// The number of whole steps of a warm-up that is given in epochs, which may be a fraction. @pre neither is negative
std::int64_t warmup_steps(double epochs, std::int64_t steps_per_epoch);

/// The schedule in words: "0.05 after a linear warm-up over 14 steps, then cosine decay to 0 at step 282".
std::string to_text(const LearningRateSchedule& schedule, std::int64_t total_steps);

}  // namespace lockstep::nn
