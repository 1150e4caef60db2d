// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/sampler.hpp"

namespace lockstep::data {

/// Who makes batches, and who is told of it.
struct PrefetchOptions {
  int workers = 1;  ///< threads that make batches ahead of time; 0: next() makes each when asked
  Observer* observer =
      nullptr;  ///< gets spans: making on "data 0", "data 1", …, waiting on "compute"; must outlive this
};

/// Makes a rank's batches ahead of the trainer, in a ring of memory allocated once.
///
/// Used by one thread; a data set is read by as many as there are workers. Batches come in the sampler's order whatever
/// the number of workers.
class Prefetcher {
 public:
  /// @param real  float32 or float64: what real tensors are made in
  /// @throws Error{invalid_argument} for another `real`, if `workers` is negative, if there is no data set, if its
  ///         tensors are ill-formed (see Datasets::load) or if it has fewer samples than the sampler deals;
  ///         std::bad_alloc
  Prefetcher(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler,
             const PrefetchOptions& options = {});
  /// Waits for batches in the making, not for the rest of the epoch.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Begins an epoch at `first_step`, dropping what was left of the one before. Allocates nothing.
  /// @throws Error{invalid_argument} if `first_step` is not in 0 … steps
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  /// The epoch's next batch, or null at its end. It stays valid until the next call on this object.
  /// Null as well before the first start_epoch(). Allocates nothing, but for what the data set does.
  /// @throws what making the batch threw, again on every call until the next start_epoch()
  const Batch* next();

  [[nodiscard]] const DistributedSampler& sampler() const;
  /// Time that next() took since construction: waiting for workers, or making batches where there are none.
  [[nodiscard]] double waited_seconds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
