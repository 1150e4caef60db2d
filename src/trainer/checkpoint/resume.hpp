// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/state_file.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {

/// What must be equal to resume from a checkpoint, for instance {"batch", "128"}.
struct RunSetting {
  std::string name;
  std::string value;
  std::string older = {};  ///< a value that means the same in checkpoints of older versions; empty: none
};
/// The section of `state.json` with the settings.
inline constexpr const char* settings_section = "settings";

/// Returns the settings of a run: those of the model, the optimizer, the data and the order of samples.
std::vector<RunSetting> settings_of(const Store& store, const TrainerOptions& options, std::int64_t training_samples);

/// Checks that all ranks can resume from a checkpoint: each compares its settings with the checkpoint's. Collective.
/// @param checkpoint  the same on all ranks. @param own  this rank's settings
/// @throws Error{mismatch} on every rank that names the ranks that cannot, and the settings that differ there
void require_same_run(ProcessGroup& group, const state::StateFile& checkpoint, const std::vector<RunSetting>& own);

/// Selects the kernels that a checkpoint was made with. Those of another compute library do not bind. Collective.
/// @param choices  their text, the same on all ranks
/// @return the number of choices of another compute library
/// @throws Error{mismatch} on every rank if a rank does not have them, with the reason; nothing has changed then
std::size_t use_kernels_of(ProcessGroup& group, Replica& replica, const std::string& choices);

/// What hinders ranks.
struct Obstacle {
  std::vector<int> ranks;  ///< those that have one
  std::string first;       ///< that of the first of them
};
/// Gathers whether ranks have obstacles. Collective. @param own  this rank's; empty: none
Obstacle gather_obstacle(ProcessGroup& group, const std::string& own);

/// Checks that no rank has an obstacle to resuming from a checkpoint. Collective.
/// @param obstacle  this rank's problem with the checkpoint, to follow "rank 0's checkpoint, which"; empty: none
/// @throws Error{mismatch} on every rank that names the ranks with an obstacle, and the first obstacle
void require_no_obstacle(ProcessGroup& group, const std::string& obstacle);

/// Adds the state of a run to `state.json`: the sections "run", "evaluation", "best" and
/// "evaluations_since_best".
void add_run(const RunState& run, state::StateFile& file);
/// Reads these sections, of metrics only name and value. @throws Error{corrupt} that names the key if one is missing or
/// of another kind or out of range
RunState run_state_of(const state::StateFile& file);
/// Checks that the epoch, its step, and the step of the run agree with each other and with the checkpoint's step.
/// @throws Error{corrupt} on every rank that names the one that does not
void require_position(const RunState& run, std::int64_t step, std::int64_t steps_per_epoch);

}  // namespace lockstep::trainer
