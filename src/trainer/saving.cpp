// SPDX-License-Identifier: Apache-2.0
// When the trainer saves a checkpoint.
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/checkpoints.hpp"
#include "trainer/finite_state.hpp"
#include "trainer/resume.hpp"

namespace lockstep::trainer {

void Trainer::save_checkpoints(CheckpointOptions options) {
  checkpoints_ = std::make_unique<Checkpoints>(*group_, std::move(options), listener_);
}

/// Saves a checkpoint if one is due after this step. The last step of an epoch waits for the evaluation.
void Trainer::save_after_step() {
  if (!checkpoints_) {
    const bool is_requested = std::exchange(save_is_due_, false);
    if (!is_requested || listener_ == nullptr || group_->rank() != Rank{0}) return;
    return listener_->checkpoint(
        {.epoch = state_.epoch, .step = state_.global_step, .error = "this run saves no checkpoints"});
  }
  checkpoints_->poll();
  const std::int64_t steps = checkpoints_->options().steps;
  const bool is_due = save_is_due_ || (steps > 0 && state_.global_step % steps == 0);
  const bool is_between_steps = replica_.model().in_flight() == 0;
  const bool saves_later = state_.step == steps_per_epoch() || all_steps_done() || state_.stopped_by != 0;
  if (is_due && is_between_steps && !saves_later) start_saving(false);
}

void Trainer::save_after_epoch(bool is_best) {
  const CheckpointOptions& options = checkpoints_->options();
  const bool by_epochs = options.epochs > 0 && state_.epoch % options.epochs == 0;
  const bool by_steps = options.steps > 0 && state_.global_step % options.steps == 0;
  const bool is_end = all_steps_done() || stops_early() || state_.stopped_by != 0;
  if (is_best || by_epochs || by_steps || save_is_due_ || is_end) start_saving(is_best);
}

void Trainer::save() {
  start_saving(false);
  checkpoints_->finish();
}

/// Checks all tensors, once after each step.
void Trainer::require_finite() {
  if (finite_step_ == state_.global_step) return;
  trainer::require_finite(*group_, replica_.store(), state_.global_step);
  finite_step_ = state_.global_step;
}

void Trainer::start_saving(bool is_best) {
  require_finite();
  save_is_due_ = false;
  group_->progress().note_task("saving a checkpoint", state_.global_step);
  state::StateFile file;
  for (const auto& [name, value] : settings_of(replica_.store(), options_, data_.train->size()))
    file.sections[settings_section][name] = value;
  file.sections["kernels"]["choices"] = replica_.model().choices().text();
  checkpoints_->save(replica_.store(), state_, std::move(file), is_best);
}

}  // namespace lockstep::trainer
