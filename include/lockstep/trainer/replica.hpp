// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/peers.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"
#include "lockstep/trainer/snapshot.hpp"

namespace lockstep::trainer {

/// One rank's copy of the model, which is kept equal on all ranks. It holds a `DataParallel`, the model, whose values
/// and gradients the `DataParallel` holds, and the optimizer state.
class Replica : private nn::Peers {
 public:
  /// Initializes the weights from the seed, then broadcasts rank 0's or compares them. Collective.
  /// @param ops  outlives the replica, as do `group` and `observer`
  /// @param tensors  the tensors of a batch
  /// @throws Error{invalid_argument} on every rank if the graph has an input that is not among them; Error{mismatch} on
  ///         every rank if the ranks' models or buckets differ, or their initial values if these are compared
  Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
          const TrainerOptions& options, Observer* observer);

  /// Allocates the memory that steps or evaluations with this many samples on this rank need.
  void prepare(Count samples, bool training) { model_.prepare(samples.value, training); }

  /// Runs forward, backward, the reduction of gradients and the update. Collective; a rank may have no samples.
  /// @param run  its loss, loss scale and skipped steps are updated; random numbers depend on its step and the seed
  /// @param wants_to_stop  whether this rank wants to stop; all ranks learn of it in the same step
  /// @return whether a rank wants to stop
  /// @throws Error{diverged} on every rank, without the update, naming the ranks and tensors whose gradients are not
  ///         finite, unless a loss scale could be at fault, or the ranks whose loss is not;
  ///         Error{mismatch} as DataParallel::finish, where weights have drifted apart; Error{transport | timeout}
  bool step(const data::Batch& batch, double learning_rate, RunState& run, bool wants_to_stop = false);

  /// Runs forward with the running statistics, and with the EMA weights if there are any. Not collective.
  /// @pre gather_averages() was called after the last step. @return the sums of each loss term on this rank
  std::span<const ops::LossSums> evaluate(const data::Batch& batch);
  /// Averages the running statistics over ranks, weighted by the samples that each has seen since the last call.
  /// Collective.
  void average_state();
  /// Gathers the EMA weights for evaluations, if each rank holds a part of them. Collective.
  void gather_averages();

  /// Writes weights, optimizer state, the running statistics and their sample counts. Collective.
  void save(Snapshot& snapshot);
  /// The settings that a snapshot must have: those of the model, and the lengths of its parts.
  [[nodiscard]] std::vector<Snapshot::Setting> settings() const;
  /// The lengths of the parts of a snapshot.
  [[nodiscard]] static std::vector<Snapshot::Setting> lengths(const Snapshot& snapshot);
  /// Selects the kernels that rank 0's snapshot was made with. Collective.
  /// @throws Error{mismatch} on every rank if a rank does not have them, with the reason; nothing has changed then
  void compute_as(const Snapshot& snapshot);
  /// Overwrites weights, optimizer state and running statistics with rank 0's snapshot. If other numbers of shards or
  /// ranks had the running statistics, all get their average. Collective.
  /// @pre the snapshot has the settings of `settings()`
  void restore(const Snapshot& snapshot);

  [[nodiscard]] const nn::Model& model() const { return model_; }
  [[nodiscard]] const DataParallel& data_parallel() const { return data_parallel_; }
  /// Memory of the optimizer's state and the EMA weights on this rank. Rank 0 has at least as much as any other.
  [[nodiscard]] Bytes optimizer_bytes() const;

 private:
  void ready(int parameter) override { data_parallel_.ready(parameter); }
  void between_operators() override { data_parallel_.progress(); }
  void sum(std::span<double> values) override;
  [[nodiscard]] int size() const override { return group_->size(); }
  void gather(std::span<const double> own, std::span<double> all) override;
  bool finish(std::span<double> values, std::span<double> found, const std::function<void()>& find) override;
  void gather_parameters() override { data_parallel_.gather(data_parallel_.values()); }
  void assemble(const Buffer& own, const Buffer& whole);
  void assemble(const Buffer& own, std::vector<std::byte>& whole);
  void take_own(const Buffer& whole, const Buffer& own) const;
  nn::Feed feed(const data::Batch& batch);
  [[noreturn]] void refuse_gradients() const;
  [[noreturn]] void refuse_loss(double loss) const;
  [[nodiscard]] Error not_finite(const std::string& what, std::vector<int> culprits) const;
  [[nodiscard]] std::vector<Buffer> optimizer_state() const;
  [[nodiscard]] Buffer averages() const { return averages_.as(model_.dtype()); }
  /// The running statistics of each of this rank's shards, one after the other.
  [[nodiscard]] Buffer states() const { return state_.as(model_.dtype()); }
  /// The running statistics of one of this rank's shards.
  [[nodiscard]] Buffer state(std::int64_t shard) const {
    const Count count = model_.state().count();
    return slice(states(), {shard * count.value}, count);
  }
  /// Returns for each rank `each` times the number of its shards or, without shards, `each`. Valid until the next call.
  std::span<const Count> times_shards(std::int64_t each);
  void save_statistics(Snapshot& snapshot);
  void restore_statistics(const Snapshot& snapshot);
  void forget_samples() { std::fill(samples_seen_.begin(), samples_seen_.end(), std::int64_t{0}); }

  ProcessGroup* group_;
  int shards_;  // number of shards of a step over all ranks; 0: no shards
  Share own_shards_;
  nn::Model model_;
  DataParallel data_parallel_;
  // The optimizer's state buffers, each with the parts that this rank updates, one after the other.
  std::vector<Allocation> optimizer_state_;
  Allocation averages_;  // EMA weights of the same parts; empty without EMA
  Allocation state_;
  LossScaleOptions loss_scale_;
  std::vector<std::size_t> tensors_;                 // index of the batch's tensor for each input of the graph
  std::vector<const void*> inputs_;                  // data of each input in the current step
  std::vector<Count> counts_;                        // result of times_shards(), which allocates nothing
  std::vector<DataParallel::NotFinite> not_finite_;  // result of the last step
  std::vector<double> sums_;                         // sums over ranks: the model's, then the ranks that want to stop
  double stops_ = 0;                                 // 1 if this rank wants to stop; after finish() the sum over ranks
  bool statistics_are_equal_;                        // batch norm keeps the running statistics equal on all ranks
  std::uint64_t seed_;
  bool zero_;                               // each rank updates only its part (ZeRO stage 1)
  bool averages_wanted_;                    // whether there are EMA weights
  double step_samples_ = 0;                 // samples of this rank in the current step
  std::vector<std::int64_t> samples_seen_;  // samples of each of this rank's shards since average_state()
};

}  // namespace lockstep::trainer
