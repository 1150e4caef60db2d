// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/trainer/run_state.hpp"
#include "state/state_file.hpp"

namespace lockstep::trainer {

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
