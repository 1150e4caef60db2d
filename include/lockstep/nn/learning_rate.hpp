// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::nn {

/// How the learning rate falls after the warm-up.
enum class Decay {
  constant,  ///< the peak throughout
  step,      ///< a tenth of the peak from 1/2 of the steps on, a hundredth from 3/4 on (He et al. 2016)
  cosine,    ///< half a period of the cosine, from the peak down to 0 (Loshchilov & Hutter 2017, without restarts)
};

/// How the learning rate changes over a run.
struct LearningRateSchedule {
  double peak = 0.05;
  Decay decay = Decay::constant;
  std::int64_t warmup_steps = 0;  ///< the rate grows linearly up to the peak in these first steps of the run
};

/// Returns the learning rate of step `step`, counted from 0, in a run of `total_steps`. It depends on its arguments
/// only, so that a resumed run continues with the same rates. Steps past the end get the last step's rate.
/// @throws Error{invalid_argument} if `step` is negative, `total_steps` not positive, or the warm-up negative or not
///         shorter than the run
double learning_rate(const LearningRateSchedule& schedule, std::int64_t step, std::int64_t total_steps);

/// The number of whole steps of a warm-up that is given in epochs, which may be a fraction. @pre neither is negative
std::int64_t warmup_steps(double epochs, std::int64_t steps_per_epoch);

/// The schedule in words: "0.05 after a linear warm-up over 14 steps, then cosine decay to 0 at step 282".
std::string to_text(const LearningRateSchedule& schedule, std::int64_t total_steps);

}  // namespace lockstep::nn
