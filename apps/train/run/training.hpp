// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/model/computation.hpp"
#include "apps/train/run/run.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::train {

/// The training of a run, or its evaluation, with what belongs to the ranks, which may become fewer.
class Training {
 public:
  /// Connects the ranks, makes the trainer, and loads what the run begins with. Collective.
  /// @param files  of rank 0; outlives this, as does the context
  Training(const RunContext& run, RunFiles& files);

  /// Trains to the end, closes the group, and records the end even if it is an error. With --min-ranks it goes on if
  /// ranks die, as long as so many are left. Collective.
  void run();
  /// Evaluates the weights, and reports the result as a run does that has trained no step. Collective.
  /// @return the exit code
  int evaluate();
  /// Predicts the pictures of --predict, and writes what the model says about them. Collective.
  /// @return the exit code
  int predict();
  /// The exit code of the run, after run().
  [[nodiscard]] int exit_code() const;
  /// Says on rank 0, as the last line of the run, that no checkpoint has its final state, and why; empty if one has it.
  [[nodiscard]] std::string not_saved_text() const;

 private:
  /// What is known about deaths of ranks.
  struct Recovery {
    Clock::time_point failed_at;               // when a rank was noticed to have died
    std::optional<trainer::RunMemory> memory;  // until a trainer has gone on from it
    std::vector<observe::DeadRank> dead;       // since then
    std::vector<observe::RecoveryEvent> done;  // one for each time that training has gone on
  };

  void connect();
  void make_trainer();
  void report_start();
  void train(const std::vector<LostRank>& lost);
  void record_failure(const char* cause);
  void run_to_end();
  void report_end();
  void report_classes();
  void go_on_without(const std::vector<LostRank>& lost);
  void report_what_is_missing();
  [[nodiscard]] std::vector<observe::MetricValue> last_evaluation() const;
  [[nodiscard]] observe::EndEvent end_event(const std::string& weights) const;
  [[nodiscard]] std::int64_t steps() const { return trainer_->state().global_step - first_step_; }

  const RunContext& run_;
  RunFiles& files_;
  Computation computation_;
  std::unique_ptr<ProcessGroup> group_;
  std::optional<int> gpu_;  // of the group
  std::unique_ptr<trainer::Trainer> trainer_;
  trainer::RunState result_;
  Clock::time_point begin_;
  std::int64_t first_step_ = 0;  // steps of the run before this start
  Recovery recovery_;
};

}  // namespace lockstep::train
