// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::data {

/// Options that decide which samples a rank gets, and in which order.
struct SamplerOptions {
  Count samples;           ///< in the data set
  Count batch;             ///< size of the global batch; the last one of an epoch may be smaller
  bool drop_last = false;  ///< leaves that last one out if it is smaller, so that all batches have the same size
  Rank rank;               ///< this process
  int ranks = 1;           ///< number of ranks that share the work
  std::uint64_t seed = 1;  ///< seed of the permutations; the same on all ranks
  bool shuffle = true;     ///< false keeps the order of the data set, for evaluation
  /// Number of shards of a global batch; one rank takes all samples of a shard. 0 stands for the number of ranks.
  int shards = 0;
  /// Shards begin at multiples of this number of samples in a step. So samples can stay together on any number of
  /// ranks.
  Count together{1};
  /// Groups of samples, by index in the data set, which are taken one after the other in place of its order. All
  /// samples of a step are of one group if there are `shards`. Otherwise those of each rank are: it takes `together`
  /// samples, or the last ones of a group, and a batch is that for each rank. Empty: there are no groups.
  std::vector<std::vector<std::int64_t>> groups = {};
};

/// Determines which samples a rank takes in each step, such that an epoch takes every sample exactly once, or with
/// `drop_last` at most once: the last samples of the epoch's permutation, fewer than a batch, are then left out.
///
/// An epoch is a permutation that depends on (seed, epoch) only. Step s takes its entries s·batch …
/// min((s+1)·batch, samples), cut into shards whose sizes differ by at most one (times `together`), the larger ones
/// first. Each rank takes consecutive shards, whose numbers differ by at most one until `move_shards` changes them. The
/// samples of a step are therefore the same for any number of ranks. A rank may have none in the last step.
class DistributedSampler {
 public:
  /// Starts in epoch 1.
  /// @throws Error{invalid_argument} if there are no samples, the batch is not positive, or with `drop_last` larger
  ///         than the data set, no sample stays together, the rank is not in 0 … ranks − 1, or groups are to be
  ///         shuffled, do not have all samples, or have another batch than they need
  explicit DistributedSampler(const SamplerOptions& options);

  /// Makes the permutation of an epoch; views of the previous one become invalid. It does not allocate.
  /// @cost O(samples)
  void start_epoch(std::int64_t epoch);

  /// Moves shards between ranks: each has those of `shards` from now on.
  /// @throws Error{invalid_argument} for another number of shards, or shards of another number of ranks
  void move_shards(const LeafShares& shards);

  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  /// Steps of one epoch: ⌈samples / batch⌉, or with `drop_last` ⌊samples / batch⌋; the same on every rank.
  [[nodiscard]] std::int64_t steps() const;
  /// Size of a global batch. @pre 0 ≤ step < steps()
  [[nodiscard]] Count step_samples(std::int64_t step) const;
  /// This rank's samples of a step, in order. @pre 0 ≤ step < steps()
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) const;
  /// The group of this rank's samples of a step; 0 without groups or samples. @pre 0 ≤ step < steps()
  [[nodiscard]] std::size_t group(std::int64_t step) const;
  /// Position of this rank's first sample in the global batch. @pre 0 ≤ step < steps()
  [[nodiscard]] std::int64_t first(std::int64_t step) const;
  /// The largest number of samples that this rank takes in any step.
  [[nodiscard]] Count largest_share() const;
  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  /// Samples of one group that follow each other in the order.
  struct Run {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::size_t group = 0;
  };
  void divide_groups();
  [[nodiscard]] std::span<const Run> runs_of(std::int64_t step) const;
  [[nodiscard]] std::span<const Run> own_runs(std::int64_t step) const;
  [[nodiscard]] std::int64_t begin_of(std::int64_t step) const;
  [[nodiscard]] Share taken(std::int64_t step) const;
  [[nodiscard]] Share shared(std::int64_t samples) const;

  SamplerOptions options_;
  LeafShares shards_;  // of each rank
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> order_;
  std::vector<Run> runs_;  // with groups
  std::int64_t runs_of_step_ = 1;
};

}  // namespace lockstep::data
