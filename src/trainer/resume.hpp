// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/rank_zero.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/store.hpp"
#include "state/state_file.hpp"

namespace lockstep::trainer {

/// What must be equal to resume from a checkpoint, for instance {"batch", "128"}.
struct RunSetting {
  std::string name;
  std::string value;
};
/// The section of `state.json` with the settings.
inline constexpr const char* settings_section = "settings";

/// Returns the settings of a run: those of the model, the optimizer, the data and the order of samples.
std::vector<RunSetting> settings_of(const Store& store, const TrainerOptions& options, std::int64_t training_samples);

/// Checks that all ranks can resume from a checkpoint: each compares its settings with the checkpoint's. Collective.
/// @param checkpoint  the same on all ranks. @param own  this rank's settings
/// @throws Error{mismatch} on every rank that names the ranks that cannot, and the settings that differ there
void require_same_run(ProcessGroup& group, const state::StateFile& checkpoint, const std::vector<RunSetting>& own);

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

}  // namespace lockstep::trainer
