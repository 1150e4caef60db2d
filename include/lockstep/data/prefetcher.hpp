// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/sampler.hpp"

namespace lockstep::data {

/// Options of a Prefetcher.
struct PrefetchOptions {
  int workers = 1;               ///< threads that read samples ahead of time; 0: next() prepares each batch itself
  Observer* observer = nullptr;  ///< gets spans: what each thread does for a batch on the tracks "data 0", "data 1", …,
                                 ///< waiting on "compute"; outlives the Prefetcher
  std::vector<std::string> bytes;  ///< names of the tensors that are left as uint8, of which the data set has bytes
  /// Whether batches have the extents that the data set draws for their step, as those of training have.
  bool draws_extents = false;
  int held = 1;  ///< number of batches that stay valid together: the last one and those before it
  /// Most memory of the batches that are prepared ahead, beside those that stay valid. There are at most workers + 1 of
  /// them, and at least one.
  Bytes ahead{std::int64_t{256} << 20};
  std::function<Allocation(Bytes)> allocate = allocate_host;  ///< memory of batches, which the host writes
};

/// Prepares a rank's batches ahead of the trainer, in a ring of buffers that is allocated once.
///
/// One thread uses it. The workers read samples concurrently, in their order across batches, so that a slow sample
/// delays its own batch only; small samples are taken in runs. Batches arrive in the sampler's order for any number of
/// workers.
class Prefetcher {
 public:
  /// @param real  dtype of real tensors, float32 or float64
  /// @throws Error{invalid_argument} for another `real`, if `workers` or `ahead` is negative or `held` is not
  ///         positive, if there is no data set or it has no bytes of a tensor, if its tensors are ill-formed (see
  ///         Datasets::load) or differ between extents in more than height and width, or if it has fewer samples than
  ///         the sampler distributes; std::bad_alloc; what `allocate` throws
  Prefetcher(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler,
             const PrefetchOptions& options = {});
  /// Waits for samples that are being read, not for the rest of the epoch.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Begins an epoch at `first_step` and drops the rest of the previous one, whose batches are no longer valid. It does
  /// not allocate.
  /// @throws Error{invalid_argument} if `first_step` is not in 0 … steps, or the data set draws extents for a step that
  ///         it does not have
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  /// Moves shards between ranks, from the next batch on. Batches of before are no longer valid, and those that were
  /// prepared ahead are dropped.
  /// @throws as DistributedSampler::move_shards; what `PrefetchOptions::allocate` throws
  void move_shards(const LeafShares& shards);

  /// Returns the next batch of the epoch, or null at its end and before the first start_epoch(). The batch stays valid
  /// until the `held`th call from now on. Only the data set may allocate.
  /// @throws the error of the batch's preparation, on every call until the next start_epoch()
  const Batch* next();

  [[nodiscard]] const DistributedSampler& sampler() const;
  /// Total time of next() since construction: waiting for workers, or preparing batches without workers.
  [[nodiscard]] double waited_seconds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
