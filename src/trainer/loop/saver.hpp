// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "trainer/checkpoint/checkpoints.hpp"
#include "trainer/loop/requests.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

/// Decides when a run saves checkpoints, and that it saves no numbers that are not finite.
class Saver {
 public:
  /// Both outlive this.
  Saver(TrainingRun& run, Requests& requests) : run_(&run), requests_(&requests) {}

  /// Saves checkpoints from now on. Collective. @throws as Trainer::save_checkpoints
  void start(CheckpointOptions options) {
    checkpoints_ = std::make_unique<Checkpoints>(run_->group, std::move(options), run_->listener);
  }
  [[nodiscard]] bool is_on() const { return checkpoints_ != nullptr; }
  /// The other folder for checkpoints; empty: there is none.
  [[nodiscard]] std::filesystem::path fallback() const { return is_on() ? checkpoints_->options().fallback : ""; }
  /// Declares that the run goes on from this checkpoint. Collective. @throws Error{io} on every rank
  void continue_from(const std::filesystem::path& checkpoint);

  /// Whether a checkpoint is due after the step before `next_step`, so that no other may be under way.
  [[nodiscard]] bool is_due_before(std::int64_t next_step) const;
  /// Saves a checkpoint if one is due after this step. The last step of an epoch waits for the evaluation. Collective.
  /// @throws as Trainer::run
  void save_after_step();
  /// Does the same after an epoch. @param is_best  of all evaluations @param is_end  of the run
  void save_after_epoch(bool is_best, bool is_end);
  /// Saves a checkpoint. Collective. @pre is_on() @throws Error{diverged} on every rank
  void save(bool is_best);
  /// Waits for the checkpoint that is being written.
  void wait() {
    if (is_on()) checkpoints_->finish();
  }
  /// Waits for the last checkpoint of the run. Collective.
  void finish();
  /// Whether, after finish(), a checkpoint has the state of the run; true without checkpoints.
  [[nodiscard]] bool is_saved() const { return is_saved_; }
  /// Checks all tensors, once after each step. Collective. @throws Error{diverged} on every rank
  void require_finite();

 private:
  [[nodiscard]] bool is_due_by_steps(std::int64_t step) const;

  TrainingRun* run_;
  Requests* requests_;
  std::unique_ptr<Checkpoints> checkpoints_;
  bool is_saved_ = true;
  std::int64_t finite_step_ = -1;  // after it, all numbers were found to be finite
};

}  // namespace lockstep::trainer
