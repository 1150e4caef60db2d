// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/gradient_reducer.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"
#include "lockstep/trainer/store.hpp"

namespace lockstep::trainer {

/// One rank's copy of the model, which is kept equal on all ranks. It holds the model, a `DataParallel` with its values
/// and gradients, and the `Store` with all else that a step changes.
class Replica : private nn::GradientReducer {
 public:
  /// Initializes the weights from the seed, then broadcasts rank 0's or compares them. Collective.
  /// @param ops  outlives the replica, as do `group` and `observer`
  /// @param tensors  the tensors of a batch; those with bytes are uint8 in batches if the model's inputs have bytes
  /// then
  /// @throws Error{invalid_argument} on every rank if the graph has an input that is not among them; Error{mismatch} on
  ///         every rank if the ranks' models or buckets differ, or their initial values if these are compared
  Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
          const TrainerOptions& options, Observer* observer);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() override;

  /// Allocates the memory that steps or evaluations with this many samples on this rank need.
  /// @throws Error{out_of_memory} with the largest batch that fits
  void prepare(Count samples, bool training);

  /// Sets the loss scale and the number of updates that the next step starts from. @pre no step is in flight
  void start_from(const RunState& run);
  /// Submits forward, backward, the reduction of gradients and the update. Collective; a rank may have no samples. On
  /// the host the step has run when the call returns. The batch may be overwritten then, unless it is in pinned memory,
  /// from which a device copies it before the step is finished.
  /// @param global_step  number of the step in the run, from 0; random numbers depend on it and the seed
  /// @param has_request  whether this rank wants to stop or to save; all ranks learn of it in the same step
  /// @pre fewer steps than `Model::max_in_flight` are in flight
  /// @throws Error{mismatch} as DataParallel::finish, where weights have drifted apart; Error{transport | timeout}
  void submit(const data::Batch& batch, double learning_rate, std::int64_t global_step, bool has_request = false);
  /// What a step has done, beside what is in `RunState`.
  struct Finished {
    std::int64_t samples = 0;  ///< of all ranks
    bool has_request = false;  ///< whether a rank has a request
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
  nn::Prediction predict(const data::Batch& batch) { return model_.predict(feed(batch)); }

  /// The shards of each rank; none if a step has no shards.
  [[nodiscard]] const LeafShares& shards() const { return shards_; }
  /// Moves shards between ranks, which changes no bit of later steps. `prepare` and `start_from` follow. Collective.
  /// @pre no step is in flight. @throws Error{invalid_argument} for another number of shards, or of other ranks
  void move_shards(const LeafShares& shards);

  /// The tensors that must survive a restart.
  [[nodiscard]] Store& store() { return store_; }
  [[nodiscard]] const Store& store() const { return store_; }

  /// Selects the kernels that a checkpoint was made with, given as its text, which is equal on all ranks. Those of
  /// another compute library do not bind. Collective.
  /// @return the number of choices of another compute library
  /// @throws Error{mismatch} on every rank if a rank does not have them, with the reason; nothing has changed then
  std::size_t compute_as(const std::string& kernel_choices);

  /// Seconds in which this rank has waited for others in operations of steps. On a device, where its stream waits, they
  /// are not known.
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] const DataParallel& data_parallel() const { return data_parallel_; }

 private:
  [[nodiscard]] int size() const override { return group_->size(); }
  void reduce(int parameter, Queue queue) override { data_parallel_.ready(parameter, queue); }
  void progress() override;
  void sum(const Buffer& numbers, Queue queue) override;
  void gather(const Buffer& own, const Buffer& all, Queue queue) override;
  void finish(const Buffer& numbers, Queue queue) override;
  void gather_parameters(Queue queue) override;
  [[nodiscard]] Communicator& communicator(Queue queue);
  void order(Work work, Queue queue);
  template <typename Use>
  auto or_abort(const Use& use);
  void abort(const Error& why) const;
  nn::Feed feed(const data::Batch& batch);
  [[nodiscard]] std::vector<DataParallel::NotFinite> not_finite_gradients() const;
  [[noreturn]] void refuse(const nn::StepResult& result);
  [[noreturn]] void refuse_data() const;
  [[noreturn]] void refuse_gradients() const;
  [[noreturn]] void refuse_loss(const nn::StepResult& result) const;
  template <typename T>
  [[nodiscard]] std::vector<T> gather_control(const T& own, const char* label) const;
  [[nodiscard]] Error not_finite(const std::string& what, std::vector<int> culprits) const;

  ProcessGroup* group_;
  LeafShares shards_;  // of a step, over all ranks; none: each rank computes its samples as one part
  nn::Model model_;
  DataParallel data_parallel_;
  Store store_;
  std::vector<std::size_t> tensors_;  // index of the batch's tensor for each input of the graph
  std::vector<const void*> inputs_;   // data of each input in the current step
  std::vector<Count> counts_;         // what each rank gathers; kept, so that a step allocates nothing
  std::uint64_t seed_;
  double waited_seconds_ = 0;
  double step_samples_ = 0;  // samples of this rank in the step that is being submitted
  /// A step in flight.
  struct Submitted {
    Count samples;                  // of this rank
    Count step_samples;             // of all ranks
    std::vector<std::int64_t> ids;  // the samples' indices in the data set
  };
  std::vector<Submitted> submitted_;  // steps use its entries in turn
  std::int64_t submissions_ = 0;
  std::size_t finishing_ = 0;  // index of the step that was finished last
  std::int64_t step_ = 0;      // number of the step that was submitted last, from 1
  /// An operation that each rank starts when it begins to wait for a step on a device. It ends when all ranks have
  /// begun to, so that a rank that has died or stopped is named, although a graph that is launched has no deadlines.
  std::optional<Prepared> everybody_waits_;
  double nothing_ = 0;  // its operand
  Clock::time_point waiting_since_;
  std::deque<Work> behind_;  // operations that the host has ordered a queue after and has not seen end
};

}  // namespace lockstep::trainer
