// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/backends/membership.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/ddp/arena.hpp"
#include "lockstep/ddp/reducer.hpp"
#include "lockstep/nn/gradient_sink.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/snapshot.hpp"
#include "lockstep/trainer/statistics.hpp"

namespace lockstep::trainer {

/// One rank's copy of the model, kept equal to all the others: a layer's backward finishes → its gradients are ready →
/// a bucket is full → all-reduce → all buckets are in → optimizer step.
class Replica : private nn::GradientSink {
 public:
  /// Sums over all ranks of one step, the same on each.
  struct StepResult {
    double loss = 0;  ///< mean over the step's samples
    std::int64_t correct = 0;
  };

  /// Weights are initialised from the seed, and are rank 0's on all ranks then, or compared. Collective.
  /// @param ops  outlives the replica, as do `membership` and `observer`
  /// @throws Error{mismatch} on every rank if the ranks' models or buckets differ, or initial values that are compared
  Replica(const backends::Membership& membership, ops::Ops& ops, const nn::Network& network,
          const TrainerOptions& options, Observer* observer);

  /// Makes all memory that steps with so many samples on this rank need.
  void prepare(Count samples) { model_.prepare(samples.value); }

  /// Forward, backward, all-reduce, update. Collective; a rank may have no samples.
  /// @throws Error{invalid_argument} on every rank, before the update, naming the ranks whose own loss was not finite;
  ///         Error{transport | timeout}
  StepResult step(const data::Batch& batch, double learning_rate);

  /// Forward only, with the running statistics. Not collective.
  ops::Loss::Result evaluate(const data::Batch& batch);
  /// Averages running statistics over ranks, weighted by the samples each has seen since the last time. Collective.
  void average_state();

  /// Weights, velocity and running statistics; the position is left alone.
  void save(Snapshot& snapshot) const;
  /// @throws Error{mismatch} if the snapshot is of another model or precision
  void restore(const Snapshot& snapshot);
  /// Overwrites this rank's weights, velocity and running statistics with rank 0's. Collective.
  void follow_rank_zero();

  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] const ddp::Arena& arena() const { return arena_; }
  [[nodiscard]] const ddp::Reducer& reducer() const { return reducer_; }

 private:
  void ready(int parameter) override { reducer_.ready(parameter); }
  void between_layers() override { reducer_.progress(); }
  void share_initial_values(InitialValues how);
  void check_finite(double own_loss_sum) const;
  [[nodiscard]] Buffer state() const { return state_.as(model_.dtype()); }

  const backends::Membership* membership_;
  nn::Model model_;
  ddp::Arena arena_;
  Allocation state_;
  ddp::Reducer reducer_;
  nn::Sgd optimizer_;
  CommunicatorStatistics statistics_;
  double sums_[2] = {};            // loss, correct: of this rank, then of all
  std::int64_t samples_seen_ = 0;  // by this rank since average_state
};

}  // namespace lockstep::trainer
