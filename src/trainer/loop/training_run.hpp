// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/seconds_since.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {

/// @throws Error{invalid_argument} with this message if the condition does not hold; it is the same on all ranks
void require(bool holds, const std::string& message, const ProcessGroup& group);

/// Makes the input pipeline of a data set.
/// @param training  whether samples are shuffled; if not, and without shards, a batch has a part for each rank, whose
///                  size does not depend on the number of ranks
data::Prefetcher make_batches(const std::shared_ptr<const data::Dataset>& dataset, const ProcessGroup& group,
                              const TrainerOptions& options, const nn::Model& model, bool training, Observer* observer);

/// What the training loop and the objects beside it share: the ranks, the options, the model, the training batches, and
/// the state of the run.
struct TrainingRun {
  /// @throws as Trainer
  TrainingRun(ProcessGroup& group_in, ops::Ops& ops, const nn::Graph& graph, const data::DatasetPair& data_in,
              const TrainerOptions& options_in, Listener* listener_in, Observer* observer);

  /// Prepares the replica for all numbers of samples that this rank gets in a step.
  void prepare_steps();
  [[nodiscard]] std::int64_t steps_per_epoch() const { return batches.sampler().steps(); }
  [[nodiscard]] std::int64_t total_steps() const;
  [[nodiscard]] bool all_steps_done() const { return state.global_step >= total_steps(); }
  /// Returns what the next step is given.
  [[nodiscard]] Replica::StepSettings next_settings() const;
  /// Notes a step that has been finished and updated the weights, or did not.
  void note_pending() { state.pending_steps = pending_after(state.pending_steps, state.global_step); }
  /// The number of the next step of the run, from 0.
  [[nodiscard]] std::int64_t next_step() const { return state.global_step + replica.model().in_flight(); }
  /// Notes for the watchdog what this rank does.
  void note_task(const char* what) { group.progress().note_task(what, state.global_step); }

  /// Samples of all ranks that steps were taken with, and the seconds that the steps took.
  struct Throughput {
    std::int64_t samples = 0;
    double seconds = 0;
  };

  [[nodiscard]] nn::AccumulationSchedule accumulation() const;
  /// Returns the number of steps since the last update after a step. @param pending  before it
  [[nodiscard]] std::int64_t pending_after(std::int64_t pending, std::int64_t step) const {
    return pending + 1 >= accumulation().steps(step) ? 0 : pending + 1;
  }

  ProcessGroup& group;
  const data::DatasetPair data;
  const TrainerOptions options;
  Listener& listener;
  Replica replica;
  data::Prefetcher batches;
  bool has_batches = false;  // whether `batches` has started this epoch
  RunState state;
  Throughput trained;  // since construction
};

}  // namespace lockstep::trainer
