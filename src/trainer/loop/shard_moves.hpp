// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/loop/evaluator.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {

/// What a rank takes for a step, in seconds.
struct StepTime {
  double own = 0;    ///< without waiting for other ranks
  double whole = 0;  ///< with it
};

/// Returns the shards with which a step takes the least time, if this is shorter than now by at least a twentieth of
/// the step. The step takes as long as the slowest rank's own time, which is proportional to its number of shards, and
/// then the exchange, which is proportional to the number of sums (`tree_nodes`) that ranks send, plus one each.
/// @param now    the shards with which `times` were measured
/// @param times  of each rank; the same on all ranks, as is the result
/// @cost O(log₂ V · (V + p) · log₂ p) for V shards on p ranks
std::optional<LeafShares> balanced(const LeafShares& now, std::span<const StepTime> times);

/// Decides every so often whether shards are to move, from the times of the steps since the last decision.
class Balance {
 public:
  Balance();
  /// Adds a step. @return whether it is time to decide, the same on all ranks
  bool add(const StepTime& step);
  /// Compares the ranks' median times, and begins anew. Collective.
  /// @return the shards that ranks are to have from now on; nothing if they keep theirs
  /// @cost one all-gather of 16 bytes from each rank
  std::optional<LeafShares> decide(ProcessGroup& group, const LeafShares& now);

 private:
  std::vector<double> own_;
  std::vector<double> whole_;
  std::size_t steps_;  // number of steps before the next decision, the same on all ranks
};

/// Moves shards between ranks, with all that belongs to them.
class ShardMoves {
 public:
  /// Both outlive this.
  ShardMoves(TrainingRun& run, Evaluator& evaluator) : run_(&run), evaluator_(&evaluator) {
    if (run.options.balance && run.group.size() > 1) balance_.emplace();
  }
  /// Gives ranks the shards. Collective. @throws as Trainer::move_shards
  void move(const LeafShares& shards);
  /// Adds a step to the times that decide whether shards move, if they may, and moves them if they are to. Collective.
  void balance(double step_seconds);

 private:
  TrainingRun* run_;
  Evaluator* evaluator_;
  std::optional<Balance> balance_;
  double waited_before_ = 0;  // for other ranks, before the step
};

}  // namespace lockstep::trainer
