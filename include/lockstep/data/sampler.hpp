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
  ///         than the data set, no sample stays together, or the rank is not in 0 … ranks − 1
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
  /// Position of this rank's first sample in the global batch. @pre 0 ≤ step < steps()
  [[nodiscard]] std::int64_t first(std::int64_t step) const;
  /// The largest number of samples that this rank takes in any step.
  [[nodiscard]] Count largest_share() const;
  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  [[nodiscard]] Share taken(std::int64_t step) const;

  SamplerOptions options_;
  LeafShares shards_;  // of each rank
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep::data
