// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/options.hpp"
#include "apps/train/voice.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "observe/progress_display.hpp"

namespace lockstep::train {

std::string weights_sha256(const trainer::Replica& replica);
/// Returns the results that belong to the trainer's present weights: those of its last evaluation, or none if a step
/// has been taken since.
std::vector<observe::MetricValue> results_of_weights(const trainer::Trainer& trainer);
/// @param seconds, steps  since the program's start
observe::EndEvent end_event(const trainer::Trainer& trainer, const std::string& weights, double seconds,
                            std::int64_t steps);

/// The training of a run to its end, with what belongs to the ranks, which may become fewer.
class Training {
 public:
  /// How the group and the trainer are made for the ranks of the world that are left.
  struct Remake {
    std::function<std::unique_ptr<ProcessGroup>()> group;
    std::function<std::unique_ptr<trainer::Trainer>(ProcessGroup&)> trainer;
  };

  /// @param options, voice  outlive this
  Training(const Options& options, Voice& voice, std::unique_ptr<ProcessGroup> group,
           std::unique_ptr<trainer::Trainer> trainer);

  /// Trains to the end, closes the group, and records the end even if it is an error. Collective.
  void run();
  /// Does the same, and goes on if ranks die, as long as --min-ranks are left. Collective.
  void run_elastic(World& world, const observe::RunLength& length, const Remake& remake);
  /// The exit code of the run, after run().
  [[nodiscard]] int exit_code() const;
  /// Says on rank 0, as the last line of the run, that no checkpoint has its final state, and why; empty if one has it.
  [[nodiscard]] std::string not_saved_text() const;

 private:
  template <typename Work>
  void record_failure_of(const Work& work);
  void record_failure(const char* cause);
  void run_to_end();
  void report_end();
  void go_on_without(const std::vector<LostRank>& lost, const World& world, const Remake& remake);
  [[nodiscard]] std::int64_t steps() const { return trainer_->state().global_step - first_step_; }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  const Options& options_;
  Voice& voice_;
  std::unique_ptr<ProcessGroup> group_;
  std::unique_ptr<trainer::Trainer> trainer_;
  trainer::RunState result_;
  Clock::time_point begin_ = Clock::now();
  std::int64_t first_step_;                   // steps of the run before this start
  Clock::time_point failed_at_;               // when a rank was noticed to have died
  std::optional<trainer::RunMemory> memory_;  // until a trainer has gone on from it
  std::vector<observe::DeadRank> dead_;       // since then
  int recoveries_ = 0;
};

}  // namespace lockstep::train
