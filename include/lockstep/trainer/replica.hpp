// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/gradient_sink.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/snapshot.hpp"
#include "lockstep/trainer/statistics.hpp"

namespace lockstep::trainer {

/// One rank's copy of the model, kept equal to all the others: a `DataParallel`, the model whose values and gradients
/// it holds, and the optimizer.
class Replica : private nn::GradientSink {
 public:
  /// Sums over all ranks of one step, the same on each.
  struct StepResult {
    double loss = 0;  ///< mean over the step's samples
    std::int64_t correct = 0;
  };

  /// Weights are initialised from the seed, and are rank 0's on all ranks then, or compared. Collective.
  /// @param ops  outlives the replica, as do `group` and `observer`
  /// @throws Error{mismatch} on every rank if the ranks' models or buckets differ, or initial values that are compared
  Replica(ProcessGroup& group, ops::Ops& ops, const nn::Network& network, const TrainerOptions& options,
          Observer* observer);

  /// Makes all memory that steps with so many samples on this rank need.
  void prepare(Count samples) { model_.prepare(samples.value); }

  /// Forward, backward, all-reduce, update. Collective; a rank may have no samples.
  /// @throws Error{invalid_argument} on every rank, before the update, naming the ranks and tensors whose gradients are
  ///         not finite, or the ranks whose loss is not; Error{transport | timeout}
  StepResult step(const data::Batch& batch, double learning_rate);

  /// Forward only, with the running statistics. Not collective.
  ops::Loss::Result evaluate(const data::Batch& batch);
  /// Averages running statistics over ranks, weighted by the samples each has seen since the last time. Collective.
  void average_state();

  /// Weights, velocity, and what running statistics are on average over ranks, which goes no further. Collective.
  void save(Snapshot& snapshot);
  /// What a snapshot has to have: of the model, and how long its parts are.
  [[nodiscard]] std::vector<Snapshot::Setting> settings() const;
  /// The same of a snapshot.
  [[nodiscard]] static std::vector<Snapshot::Setting> lengths(const Snapshot& snapshot);
  /// Overwrites weights, velocity and running statistics with rank 0's snapshot. Collective.
  /// @pre it has what `settings` says
  void restore(const Snapshot& snapshot);

  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] const DataParallel& data_parallel() const { return data_parallel_; }

 private:
  void ready(int parameter) override { data_parallel_.ready(parameter); }
  void between_layers() override { data_parallel_.progress(); }
  [[noreturn]] void refuse_not_finite(const std::vector<DataParallel::NotFinite>& gradients) const;
  [[noreturn]] void refuse_loss(double own_loss_sum) const;
  [[nodiscard]] Error not_finite(const std::string& what, std::vector<int> culprits) const;
  [[nodiscard]] Buffer velocity() const;
  [[nodiscard]] Buffer state() const { return state_.as(model_.dtype()); }

  ProcessGroup* group_;
  nn::Model model_;
  DataParallel data_parallel_;
  Allocation velocity_;
  Allocation state_;
  nn::Sgd optimizer_;
  CommunicatorStatistics statistics_;
  double sums_[2] = {};            // loss, correct: of this rank, then of all
  std::int64_t samples_seen_ = 0;  // by this rank since average_state
};

}  // namespace lockstep::trainer
