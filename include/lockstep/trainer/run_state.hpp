// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/observe/events.hpp"

namespace lockstep::trainer {

/// `RunState::stopped_by` of a run that ended because its time was over (`Trainer::stop_at`).
inline constexpr int stopped_by_time = 1 << 16;

/// The state of a run between two steps, apart from its tensors and options. It is equal on all ranks. A run that
/// resumes with it reports the same results as an undisturbed run.
struct RunState {
  std::int64_t epoch = 1;  ///< current epoch, from 1
  std::int64_t step = 0;   ///< steps done in this epoch
  /// Whether the end of this epoch, or of the run, has been evaluated and reported after the last step.
  bool is_reported = false;
  std::int64_t global_step = 0;   ///< steps done in the run
  std::int64_t skipped = 0;       ///< steps without an update, because gradients were not finite with this loss scale
  double loss_scale = 0;          ///< 0: none
  std::int64_t scaled_steps = 0;  ///< steps since the loss scale changed
  double last_loss = 0;           ///< mean loss of the last step over the samples of all ranks
  double epoch_loss_sum = 0;      ///< sum of the losses of this epoch's samples
  std::int64_t epoch_samples = 0;
  std::vector<observe::MetricValue> evaluation;  ///< the last one; without values if there was none
  std::int64_t evaluated_step = 0;               ///< `global_step` of the last one; 0: not known
  std::vector<observe::MetricValue> best;        ///< the best value of each metric
  /// For each metric, the evaluations since the one with its best value.
  std::vector<std::int64_t> evaluations_since_best;
  /// The largest of the ranks' stop requests, or `stopped_by_time`, once they have agreed to stop; 0 before. It belongs
  /// to the process that runs, so a run that resumes begins with 0.
  int stopped_by = 0;
};

}  // namespace lockstep::trainer
