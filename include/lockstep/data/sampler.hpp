// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep::data {

/// What decides which samples a rank sees, and in which order.
struct SamplerOptions {
  Count samples;           ///< in the data set
  Count batch;             ///< samples of one step over all ranks; the last step of an epoch may have fewer
  Rank rank;               ///< this process
  int ranks = 1;           ///< how many share the work
  std::uint64_t seed = 1;  ///< of the permutations; the same on all ranks
  bool shuffle = true;     ///< false: the data set's own order, for evaluation
  /// Parts that a step's samples are cut into, of each of which one rank takes all; 0: as many as ranks.
  int shards = 0;
};

/// Says which samples a rank takes in each step, so that over an epoch every sample is taken exactly once.
///
/// An epoch is a permutation that depends on (seed, epoch) only. Step s takes its entries s·batch …
/// min((s+1)·batch, samples), cut into as many shards as there are ranks, or more, the sizes differing by at most one,
/// the larger ones first; each rank takes consecutive ones, as many as others or one more. So a step's samples are the
/// same for any number of ranks; a rank may have none in the last step.
class DistributedSampler {
 public:
  /// Begins in epoch 1.
  /// @throws Error{invalid_argument} if there are no samples, the batch is not positive or the rank not in 0 … ranks −
  /// 1
  explicit DistributedSampler(const SamplerOptions& options);

  /// Makes the epoch's permutation; views of the previous one become invalid. Allocates nothing.
  /// @cost O(samples)
  void start_epoch(std::int64_t epoch);

  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  /// Steps of one epoch: ⌈samples / batch⌉, the same on every rank.
  [[nodiscard]] std::int64_t steps() const;
  /// Samples of a step over all ranks. @pre 0 ≤ step < steps()
  [[nodiscard]] Count step_samples(std::int64_t step) const;
  /// This rank's samples of a step, in order. @pre 0 ≤ step < steps()
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) const;
  /// The place of the first of them among the step's samples. @pre 0 ≤ step < steps()
  [[nodiscard]] std::int64_t first(std::int64_t step) const;
  /// The most samples that this rank takes in any step.
  [[nodiscard]] Count largest_share() const;
  [[nodiscard]] const SamplerOptions& options() const { return options_; }

 private:
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep::data
