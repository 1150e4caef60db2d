// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer/run_state.hpp"
#include "state/state_file.hpp"

namespace lockstep::trainer {

/// Adds the state of a run to `state.json`: the sections "run", "evaluation", "best" and
/// "evaluations_since_best".
void add_run(const RunState& run, state::StateFile& file);
/// Reads these sections, of metrics only name and value. @throws Error{corrupt} that names the key if one is missing or
/// of another kind
RunState run_state_of(const state::StateFile& file);

}  // namespace lockstep::trainer
