// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/trainer/options.hpp"
#include "lockstep/trainer/run_state.hpp"

namespace lockstep::trainer {

/// The running statistics of batch norm on this rank, a part for each of its shards, with the numbers of samples that
/// the parts have seen since they were averaged. Without shards a rank has one part. A part holds the statistics and,
/// with `StepOptions::ema_statistics`, their EMA behind them, which is averaged, gathered and moved with them.
class RunningStatistics {
 public:
  /// Allocates zeroed memory. @param model  outlives this, as does `group`
  RunningStatistics(ProcessGroup& group, const nn::Model& model, const TrainerOptions& options);

  /// All parts of this rank, one after the other.
  [[nodiscard]] Buffer all() const { return memory_.as(model_->dtype()); }
  /// One of this rank's parts, by its index among them.
  [[nodiscard]] Buffer part(std::int64_t index) const;
  [[nodiscard]] bool has_shards() const { return has_shards_; }
  /// Overwrites the EMA of each part, if there is one, with the statistics.
  void start_averages();
  /// Moves shards between ranks with their statistics, whose buffer changes. Collective.
  void move_shards(const LeafShares& shards);
  /// Returns for each rank `each` times the number of its parts. Valid until the next call. It does not allocate.
  std::span<const Count> times_parts(std::int64_t each);

  /// Counts the samples of a step on this rank.
  void count_samples(Count samples) { count_samples(samples, samples_seen_); }
  /// Overwrites each part with the average over the parts of all ranks, weighted by the samples that each has seen, and
  /// added in the canonical order if there are shards. If nobody has seen a sample, they keep their values. Collective.
  void average();

  /// Gathers the parts of all ranks. Statistics that batch norm keeps equal on all ranks are one part. Collective.
  [[nodiscard]] GatheredStatistics gather();
  /// Returns memory for that many gathered parts, which have seen no samples.
  [[nodiscard]] GatheredStatistics make_gathered(std::int64_t parts) const;
  /// Overwrites this rank's parts with gathered ones. If other numbers of shards or ranks had them, all get their
  /// average, which overwrites `gathered`.
  void take(GatheredStatistics& gathered);
  /// Overwrites the first gathered part with the average of all, weighted by the samples that each has seen, and
  /// returns it. If nobody has seen a sample, it keeps its values.
  Buffer average_of(GatheredStatistics& gathered) const;

  /// From now on this rank remembers the parts of all ranks as they were when the last step was completed, since those
  /// of a rank that dies are lost. Collective. @cost  an all-gather of the statistics in each step
  void remember();
  [[nodiscard]] bool remembers() const { return memory_of_all_.has_value(); }
  /// Gathers the parts, if they are to be remembered, within a step in which this rank has these samples. They become
  /// the remembered ones when the step is completed. Collective.
  void gather_in_step(Count samples);
  /// Remembers what was gathered or averaged last, because all that belongs to it is completed.
  void keep_gathered();
  /// The remembered parts. @pre remember() was called
  [[nodiscard]] const GatheredStatistics& remembered() const { return memory_of_all_->completed; }

 private:
  /// What this rank remembers of all ranks.
  struct MemoryOfAll {
    GatheredStatistics completed;
    GatheredStatistics next;  // becomes `completed` if `has_next`
    bool has_next = false;
    std::vector<std::int64_t> samples;  // of this rank within a step
  };
  static void count_samples(Count samples, std::vector<std::int64_t>& seen);
  [[nodiscard]] Count count() const { return model_->state_of_shard(); }
  [[nodiscard]] Share own_shards() const { return shards_.of(group_->rank().value, group_->size()); }
  [[nodiscard]] std::int64_t gathered_parts() const { return are_equal_ ? 1 : shards_.total(); }
  void allocate();
  void gather(GatheredStatistics& gathered, std::span<std::int64_t> samples);
  void average_over_ranks(const Buffer& statistics);
  void average_over_shards(const Buffer& statistics);

  ProcessGroup* group_;
  const nn::Model* model_;
  bool are_equal_;  // batch norm keeps them equal on all ranks
  bool has_shards_;
  LeafShares shards_;  // of all ranks; without shards each rank is one
  Allocation memory_;
  std::vector<std::int64_t> samples_seen_;  // by part
  std::vector<Count> counts_;               // result of times_parts()
  std::optional<MemoryOfAll> memory_of_all_;
};

}  // namespace lockstep::trainer
