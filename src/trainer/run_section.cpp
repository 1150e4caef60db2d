// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_section.hpp"

#include <string>

namespace lockstep::trainer {
namespace {

constexpr const char* run_section = "run";

/// Calls `take` with the name of each number and the number.
template <typename Run, typename Take>
void for_each_number(Run& run, const Take& take) {
  take("epoch", run.epoch);
  take("step", run.step);
  take("global_step", run.global_step);
  take("skipped", run.skipped);
  take("loss_scale", run.loss_scale);
  take("scaled_steps", run.scaled_steps);
  take("last_loss", run.last_loss);
  take("epoch_loss_sum", run.epoch_loss_sum);
  take("epoch_samples", run.epoch_samples);
  take("best_accuracy", run.best_accuracy);
}

}  // namespace

state::StateFile::Section section_of(const RunState& run) {
  state::StateFile::Section section;
  for_each_number(run, [&](const char* name, auto number) { section[name] = number; });
  section["is_reported"] = std::int64_t{run.is_reported};
  section["is_evaluated"] = std::int64_t{run.evaluation.has_value()};
  if (run.evaluation) {
    section["evaluation_loss"] = run.evaluation->loss;
    section["evaluation_accuracy"] = run.evaluation->accuracy;
  }
  return section;
}

RunState run_state_of(const state::StateFile& file) {
  RunState run;
  const auto read = [&](const char* name, auto& number) {
    if constexpr (std::is_same_v<std::decay_t<decltype(number)>, double>) {
      number = file.real(run_section, name);
    } else {
      number = file.integer(run_section, name);
    }
  };
  for_each_number(run, read);
  run.is_reported = file.integer(run_section, "is_reported") != 0;
  if (file.integer(run_section, "is_evaluated") != 0) {
    run.evaluation.emplace();
    read("evaluation_loss", run.evaluation->loss);
    read("evaluation_accuracy", run.evaluation->accuracy);
  }
  return run;
}

}  // namespace lockstep::trainer
