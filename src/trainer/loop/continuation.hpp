// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/trainer/trainer.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

class Evaluator;
class Saver;

/// Lets a run go on with the state of another one: a checkpoint's, or what the ranks that are left remember.
class Continuation {
 public:
  /// All outlive this.
  Continuation(TrainingRun& run, const Evaluator& evaluator, Saver& saver)
      : run_(&run), evaluator_(&evaluator), saver_(&saver) {}

  /// Does what Trainer::resume does.
  Trainer::Resumed resume(const std::string& wish, const std::filesystem::path& folder);

  /// @throws as Trainer::remember
  void remember();
  /// Notes that all of a step, or of an evaluation, is done. Nothing between the update of a step and this call waits
  /// for other ranks, so what a rank has completed it has as a whole.
  void note_completion();
  /// What this rank remembers. @pre remember() was called
  [[nodiscard]] RunMemory memory() const;
  /// Overwrites the state of the run with the memory of a rank that has completed the most, and remembers. Collective.
  void go_on_from(const RunMemory& own);

 private:
  void take_over(RunState run);
  void copy_tensors();
  [[nodiscard]] std::vector<Buffer> tensors() const;

  TrainingRun* run_;
  const Evaluator* evaluator_;
  Saver* saver_;
  RunState completed_;              // the state to go on from, if ranks die
  std::vector<Allocation> copies_;  // of the tensors in it, if a device has them
};

}  // namespace lockstep::trainer
