// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/data/batch.hpp"
#include "lockstep/data/dataset.hpp"
#include "trainer/replica/step_exchange.hpp"
#include "trainer/replica/store.hpp"

namespace lockstep::trainer {

/// Which tensor of a batch each input of a graph takes.
class BatchInputs {
 public:
  /// @param tensors  those of a batch
  /// @throws Error{invalid_argument} if the graph has an input that is not among them
  BatchInputs(const nn::Graph& graph, const std::vector<TensorSpec>& tensors);

  /// Lets the graph read bytes of the tensors that have them, if the compute library converts them.
  [[nodiscard]] nn::Graph with_bytes(nn::Graph graph, const ops::Ops& ops,
                                     const std::vector<TensorSpec>& tensors) const;
  /// Returns the inputs in a batch. Valid until the next call. It does not allocate.
  nn::Feed feed(const data::Batch& batch);

 private:
  std::vector<std::size_t> tensors_;  // index in the batch, by input
  std::vector<const void*> inputs_;   // data, by input
};

/// One rank's copy of the model, which is kept equal on all ranks. It holds the model, a `DataParallel` with its values
/// and gradients, and the `Store` with all else that a step changes.
class Replica {
 public:
  /// Initializes the weights from the seed, then broadcasts rank 0's or compares them. Collective.
  /// @param ops  outlives the replica, as do `group` and `observer`
  /// @param extents  the tensors of a batch with all extents that steps and evaluations may have, the first ones for
  ///         `graph`; tensors with bytes are uint8 in batches if the model's inputs have bytes
  /// @throws Error{invalid_argument} on every rank if the graph has an input that is not among them, or the graphs for
  ///         other extents are none or another model; Error{mismatch} on every rank if the ranks' models or buckets
  ///         differ, or their initial values if these are compared
  Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, data::PairExtents extents,
          const TrainerOptions& options, Observer* observer);
  /// Makes a replica whose evaluations have the first ones of these extents.
  Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph,
          const std::vector<std::vector<TensorSpec>>& extents, const TrainerOptions& options, Observer* observer);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  /// Destroys captured steps before the memory of their gradients, which NCCL has registered for them.
  ~Replica() { drop_captured_steps(); }

  /// Allocates the memory that steps or evaluations with this many samples on this rank need.
  /// @throws Error{out_of_memory} with the largest batch that fits
  void prepare(Count samples, bool training, std::size_t extents = 0);
  /// Does so for training steps of all extents, the largest first. Kernels and plans of many extents may take much
  /// memory of the host: they are limited to an eighth of what it has left at the first call, shared by the ranks of
  /// the node, and those that were used last are kept, at least of two. All ranks keep as many. Collective, if there
  /// are several extents.
  /// @param samples  the numbers of samples that this rank has in steps
  /// @throws as above
  void prepare_steps(const std::vector<Count>& samples);
  /// What `prepare_steps` has prepared.
  struct PreparedExtents {
    std::size_t kept = 1;  ///< of the extents, those that have kernels and plans at the same time
    Bytes plans;           ///< growth of this process, beside activations; not measured for a single one
  };
  [[nodiscard]] const PreparedExtents& prepared_extents() const { return prepared_; }
  /// The tensors of a batch with all extents that steps may have.
  [[nodiscard]] std::span<const std::vector<TensorSpec>> extents() const {
    return std::span(extents_.all).first(extents_.training);
  }

  /// Sets the loss scale and the number of updates that the next step starts from. @pre no step is in flight
  void start_from(const RunState& run);
  /// The numbers of a step that change during a run.
  struct StepSettings {
    nn::StepRates rates;
    bool begins_sum = true;    ///< with `StepOptions::sum_steps`, as `StepScalars::begins_sum`
    bool updates = true;       ///< likewise
    bool has_request = false;  ///< whether this rank wants to stop or to save; all ranks learn of it in the same step
  };
  /// Submits forward, backward, the reduction of gradients and the update. Collective; a rank may have no samples. On
  /// the host the step has run when the call returns. The batch may be overwritten then, unless it is in pinned memory,
  /// from which a device copies it before the step is finished.
  /// @param global_step  number of the step in the run, from 0; random numbers depend on it and the seed
  /// @pre fewer steps than `Model::max_in_flight` are in flight
  /// @throws Error{mismatch} as DataParallel::finish, where weights have drifted apart; Error{transport | timeout}
  void submit(const data::Batch& batch, const StepSettings& settings, std::int64_t global_step);
  void submit(const data::Batch& batch, double learning_rate, std::int64_t global_step) {
    submit(batch, {.rates = {.learning_rate = learning_rate}}, global_step);
  }
  /// What a step has done, beside what is in `RunState`.
  struct Finished {
    std::int64_t samples = 0;  ///< of all ranks
    bool has_request = false;  ///< whether a rank has a request
    std::size_t extents = 0;
  };
  /// Waits for the oldest step in flight. Its loss, loss scale and, if it made no update, one more skipped step are
  /// written to `run`. Collective.
  /// @throws Error on every rank after a step that made no update and allows none after it, and waits for the steps in
  ///         flight, which change nothing: Error{diverged} naming the ranks and tensors whose gradients are not finite,
  ///         unless a loss scale could be at fault, or the ranks whose loss is not; Error{invalid_argument} naming
  ///         the ranks, samples and values of data that an operator cannot take; also Error{transport | timeout}
  Finished finish(RunState& run);

  /// Runs forward with the running statistics, and with the EMA weights if there are any. Not collective.
  /// @pre Store::gather_averages() was called after the last step
  /// @param batch  its extents are those of the test set
  nn::Prediction predict(const data::Batch& batch) {
    nn::Feed feed = inputs_.feed(batch);
    feed.extents = evaluation_extents(batch.extents);
    return model_.predict(feed);
  }
  /// The model's extents for those of a batch of the test set.
  [[nodiscard]] std::size_t evaluation_extents(std::size_t of_batch) const { return extents_.evaluation.at(of_batch); }

  /// The shards of each rank; none if a step has no shards.
  [[nodiscard]] const LeafShares& shards() const { return shards_; }
  /// Moves shards between ranks, which changes no bit of later steps. `prepare` and `start_from` follow. Collective.
  /// @pre no step is in flight. @throws Error{invalid_argument} for another number of shards, or of other ranks
  void move_shards(const LeafShares& shards);

  /// The tensors that must survive a restart.
  [[nodiscard]] Store& store() { return store_; }
  [[nodiscard]] const Store& store() const { return store_; }

  /// Selects kernels. @pre no step is in flight. @throws as nn::Model::use; nothing has changed then
  void use(const ops::KernelChoices& choices) { model_.use(choices); }

  /// Does what `ProcessGroup::close` needs on GPUs, as nn::Model::drop_captured_steps.
  void drop_captured_steps() { model_.drop_captured_steps(); }

  /// Seconds in which this rank has waited for others in operations of steps. On a device, where its stream waits, they
  /// are not known.
  [[nodiscard]] double waited_seconds() const { return exchange_.waited_seconds(); }

  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] const DataParallel& data_parallel() const { return data_parallel_; }

 private:
  /// The samples of a step.
  struct Submitted {
    Count of_rank;
    Count of_all_ranks;
    std::size_t extents = 0;
    bool updates = true;
    std::vector<std::int64_t> ids;  // indices in the data set of this rank's samples
  };
  void add_extents(const ops::Ops& ops, const TrainerOptions& options);
  [[nodiscard]] std::size_t extents_that_fit(Bytes each);
  [[noreturn]] void refuse(const nn::StepResult& result, const std::vector<std::int64_t>& samples);

  ProcessGroup* group_;
  LeafShares shards_;  // of a step, over all ranks; none: each rank computes its samples as one part
  data::PairExtents extents_;
  BatchInputs inputs_;
  nn::Model model_;
  DataParallel data_parallel_;
  Store store_;
  StepExchange exchange_;
  std::uint64_t seed_;
  std::vector<Submitted> submitted_;  // the newest step is last
  PreparedExtents prepared_;
};

/// Explains why the step that a model has finished last has halted the run: which rank, which tensor or which sample is
/// at fault. Collective.
/// @param samples  indices in the data set of this rank's samples
/// @throws Error{diverged | invalid_argument} on every rank, always, as Replica::finish
[[noreturn]] void refuse_step(ProcessGroup& group, const nn::Model& model, const nn::StepResult& result,
                              const std::vector<std::int64_t>& samples);

}  // namespace lockstep::trainer
