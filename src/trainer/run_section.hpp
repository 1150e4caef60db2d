// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer/run_state.hpp"
#include "state/state_file.hpp"

namespace lockstep::trainer {

/// Returns the state of a run as the section "run" of `state.json`.
state::StateFile::Section section_of(const RunState& run);
/// Reads the section "run". @throws Error{corrupt} that names the key if one is missing or of another kind
RunState run_state_of(const state::StateFile& file);

}  // namespace lockstep::trainer
