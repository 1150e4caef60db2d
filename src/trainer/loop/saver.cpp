// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/saver.hpp"

#include "ddp/rank_zero.hpp"
#include "trainer/checkpoint/finite_state.hpp"
#include "trainer/checkpoint/resume.hpp"

namespace lockstep::trainer {

void Saver::continue_from(const std::filesystem::path& checkpoint) {
  if (!is_on()) return;
  on_rank_zero(run_->group, [&] { checkpoints_->continue_from(checkpoint, run_->state.global_step); });
}

bool Saver::is_due_by_steps(std::int64_t step) const {
  const std::int64_t steps = is_on() ? checkpoints_->options().steps : 0;
  return steps > 0 && step % steps == 0;
}

bool Saver::is_due_before(std::int64_t next_step) const {
  return requests_->save_is_due() || is_due_by_steps(next_step);
}

void Saver::save_after_step() {
  const RunState& state = run_->state;
  if (!is_on()) {
    const bool is_requested = requests_->save_is_due();
    requests_->has_saved();
    if (is_requested && run_->group.is_root())
      run_->listener.checkpoint(
          {.epoch = state.epoch, .step = state.global_step, .error = "this run saves no checkpoints"});
    return;
  }
  checkpoints_->poll();
  const bool is_due = requests_->save_is_due() || is_due_by_steps(state.global_step);
  const bool is_between_steps = run_->replica.model().in_flight() == 0;
  const bool saves_later = state.step == run_->steps_per_epoch() || run_->all_steps_done() || state.stopped_by != 0;
  if (is_due && is_between_steps && !saves_later) save(false);
}

void Saver::save_after_epoch(bool is_best, bool is_end) {
  if (!is_on()) return;
  const std::int64_t epochs = checkpoints_->options().epochs;
  const bool is_due = (epochs > 0 && run_->state.epoch % epochs == 0) || is_due_by_steps(run_->state.global_step);
  if (is_best || is_due || requests_->save_is_due() || is_end) save(is_best);
}

void Saver::finish() {
  wait();
  is_saved_ = !is_on() || checkpoints_->has(run_->state.global_step);
}

void Saver::require_finite() {
  if (finite_step_ == run_->state.global_step) return;
  trainer::require_finite(run_->group, run_->replica.store(), run_->state.global_step);
  finite_step_ = run_->state.global_step;
}

void Saver::save(bool is_best) {
  require_finite();
  requests_->has_saved();
  run_->note_task("saving a checkpoint");
  state::StateFile file;
  for (const RunSetting& setting : settings_of(run_->replica.store(), run_->options, run_->data.train->size()))
    file.sections[settings_section][setting.name] = setting.value;
  file.sections["kernels"]["choices"] = run_->replica.model().choices().text();
  checkpoints_->save(run_->replica.store(), run_->state, std::move(file), is_best);
}

}  // namespace lockstep::trainer
