// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/trainer/options.hpp"

namespace lockstep::trainer {

/// The tensors of a run that must survive a restart: the values of the parameters, which the `DataParallel` holds, the
/// state of the optimizer, the EMA weights, and running statistics with the numbers of samples that they have seen.
/// With a sharded optimizer a rank has all values, and the state and EMA weights of the parts that it updates.
class Store {
 public:
  /// Allocates the memory; all but the values is zero. @param data_parallel  outlives this, as do `group` and `model`
  Store(ProcessGroup& group, const nn::Model& model, DataParallel& data_parallel, const TrainerOptions& options);

  /// The buffers for Model::bind.
  [[nodiscard]] nn::Model::Memory memory() const;
  /// Overwrites the EMA weights, if there are any, with the values.
  void start_averages();

  [[nodiscard]] const nn::Model& model() const { return *model_; }
  [[nodiscard]] Buffer values() const { return data_parallel_->values(); }
  /// The optimizer's state buffers, in the order of `state_names()`, each with this rank's parts, one after the other.
  [[nodiscard]] std::vector<Buffer> optimizer_state() const;
  [[nodiscard]] ops::UpdateRule rule() const { return rule_; }
  [[nodiscard]] std::vector<std::string_view> state_names() const { return nn::Optimizer::state_names(rule_); }
  /// The EMA weights of this rank's parts; empty without EMA.
  [[nodiscard]] Buffer averages() const { return averages_.as(model_->dtype()); }
  [[nodiscard]] bool has_averages() const { return has_averages_; }
  /// The parts of the layout that this rank updates.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const { return data_parallel_->owned(); }
  [[nodiscard]] bool is_sharded() const { return is_sharded_; }
  /// Memory of the optimizer's state and the EMA weights on this rank. Rank 0 has at least as much as any other.
  [[nodiscard]] Bytes optimizer_bytes() const;

  /// The running statistics of each of this rank's shards, one after the other. Without shards a rank is one.
  [[nodiscard]] Buffer statistics() const { return statistics_.as(model_->dtype()); }
  /// The running statistics of one of this rank's shards, by its index among them.
  [[nodiscard]] Buffer statistics(std::int64_t shard) const;
  /// Moves shards between ranks with their running statistics, whose buffer changes. Collective.
  void move_shards(const LeafShares& shards);
  /// Counts the samples of a step on this rank.
  void count_samples(Count samples);
  /// Averages the running statistics over all shards, weighted by the samples that each has seen. Collective.
  void average_statistics();

  /// The running statistics of all shards of all ranks.
  struct AllStatistics {
    std::vector<std::byte> memory;
    Buffer parts;                       ///< those of each shard, one after the other, in `memory`
    std::vector<std::int64_t> samples;  ///< samples that each has seen since they were averaged

    /// Returns a copy whose parts are in its own memory.
    [[nodiscard]] AllStatistics copy() const {
      AllStatistics other = *this;
      other.parts.data = other.memory.data();
      return other;
    }
  };
  /// Gathers the running statistics. Statistics that batch norm keeps equal on all ranks are one part. Collective.
  [[nodiscard]] AllStatistics gather_statistics();
  /// From now on this rank remembers the running statistics of all ranks as they were when the last step was
  /// completed, since those of a rank that dies are lost. Collective. @cost  an all-gather of the statistics in each
  /// step
  void remember_statistics();
  /// Gathers the statistics, if they are to be remembered, within a step in which this rank has these samples. They
  /// become the remembered ones when the step is completed. Collective.
  void gather_in_step(Count samples);
  /// Remembers what was gathered or averaged last, because all that belongs to it is completed.
  void keep_gathered();
  /// The remembered statistics. @pre remember_statistics() was called
  [[nodiscard]] const AllStatistics& remembered() const { return remembered_; }
  [[nodiscard]] bool remembers() const { return remembers_; }
  /// Overwrites the running statistics with gathered ones. If other numbers of shards or ranks had them, all get their
  /// average, which overwrites `all`.
  void take_statistics(AllStatistics& all);

  /// Overwrites a flat buffer of the layout with the parts of all ranks. Collective.
  void assemble(const Buffer& own, const Buffer& whole);
  /// Overwrites this rank's parts with their elements in a flat buffer of the layout.
  void take_own(const Buffer& whole, const Buffer& own) const;
  /// Gathers the EMA weights for evaluations, if each rank has a part of them. They overwrite the gradients, which are
  /// not needed any more before the next step. Collective.
  void gather_averages();

 private:
  void overwrite(const Buffer& to, const Buffer& from) const;
  void gather_statistics(AllStatistics& all, std::span<std::int64_t> samples);
  static void count_samples(Count samples, std::vector<std::int64_t>& seen);
  /// Returns this rank's shards. Without shards a rank is one.
  [[nodiscard]] Share own_shards() const { return shards_.of(group_->rank().value, group_->size()); }
  /// Allocates running statistics of this rank's shards.
  void allocate_statistics();
  /// Returns for each rank `each` times the number of its shards. Valid until the next call.
  std::span<const Count> times_shards(std::int64_t each);

  ProcessGroup* group_;
  const nn::Model* model_;
  DataParallel* data_parallel_;
  ops::UpdateRule rule_;
  bool is_sharded_;
  bool has_averages_;
  bool statistics_are_equal_;  // batch norm keeps the running statistics equal on all ranks
  bool has_shards_;
  LeafShares shards_;  // of all ranks; without shards each rank is one
  std::vector<Allocation> optimizer_state_;
  Allocation averages_;
  Allocation statistics_;
  std::vector<std::int64_t> samples_seen_;
  std::vector<Count> counts_;  // result of times_shards(), which allocates nothing
  bool remembers_ = false;
  AllStatistics remembered_;
  AllStatistics gathered_;  // to be remembered next
  bool has_gathered_ = false;
  std::vector<std::int64_t> seen_in_step_;
};

}  // namespace lockstep::trainer
