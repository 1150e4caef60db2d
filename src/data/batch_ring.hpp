// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "lockstep/data/sampler.hpp"

namespace lockstep::data {

/// The memory of one batch, with its state.
struct PreparedBatch {
  std::vector<Allocation> memory;  ///< memory of each tensor, for the largest number of samples
  std::vector<Buffer> tensors;     ///< the part of the memory that the batch uses
  Batch batch;
  std::int64_t unread = 0;   ///< samples that are not read yet
  bool is_ready = false;     ///< all samples are read, or it has failed
  std::exception_ptr error;  ///< that of the first sample, in the order of the batch, that could not be read
  std::size_t failed = 0;    ///< position of that sample
};

/// Consecutive samples of a batch, which one thread reads.
struct SampleRun {
  PreparedBatch* into = nullptr;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  bool is_last = false;  ///< the batch has no samples behind it
};

/// Why a sample could not be read. Without an error all were read.
struct ReadFailure {
  std::exception_ptr error;
  std::size_t sample = 0;  ///< its position in the batch
};

/// A rank's batches in a ring of memory: the batch of step s is in entry s modulo the size of the ring. Samples are
/// drawn in the order of the epoch, across batches, while the entry of the next batch is free. It needs a lock, except
/// for `read`, which many threads may call at once.
class BatchRing {
 public:
  /// @throws what the constructor of Prefetcher throws
  BatchRing(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler, PrefetchOptions options);

  [[nodiscard]] const DistributedSampler& sampler() const { return sampler_; }
  [[nodiscard]] Bytes bytes_of(const SampleRun& run) const {
    return {static_cast<std::int64_t>(run.count) * sample_bytes(run.into->batch.extents)};
  }
  /// Number of tensors, and so of the slots that `read` needs.
  [[nodiscard]] std::size_t tensors() const { return specs_.front().size(); }

  /// Lets nothing be drawn until begin_at().
  void pause() { at_.is_paused = true; }
  /// Whether a run is drawn that is not finished.
  [[nodiscard]] bool is_reading() const { return at_.reading > 0; }
  /// Drops all batches and goes on with that of `step`. @pre !is_reading()
  void begin_at(std::int64_t step);
  /// Takes the samples of another epoch. @pre begin_at() has just been called
  void start_epoch(std::int64_t epoch);
  /// Takes the samples of other shards. @pre begin_at() has just been called
  void move_shards(const LeafShares& shards);
  /// The step that is taken next.
  [[nodiscard]] std::int64_t next_step() const { return at_.taken; }

  [[nodiscard]] bool can_draw() const {
    return !at_.is_paused && at_.drawn < at_.end && at_.drawn < at_.oldest_in_use + size_;
  }
  /// @pre can_draw()
  SampleRun draw();
  /// Reads the samples of a run into their slots. @param slots  scratch, tensors() of them
  ReadFailure read(const SampleRun& run, std::span<Buffer> slots) const noexcept;
  /// Enters that a run has been read. After a failure the rest of its batch is left out.
  /// @return whether the batch is ready now
  bool finish(const SampleRun& run, const ReadFailure& failure);

  /// Frees the batches that are no longer held. @return whether there were any
  bool release();
  [[nodiscard]] bool has_ended() const { return at_.taken >= at_.end; }
  /// The next batch to be taken. @pre !has_ended()
  [[nodiscard]] PreparedBatch& front() { return entry_of(at_.taken); }
  void take() { ++at_.taken; }

 private:
  /// How far the epoch is drawn and taken.
  struct Position {
    bool is_paused = false;
    int reading = 0;                 ///< runs that are drawn, but not finished
    std::int64_t end = 0;            ///< steps of the epoch
    std::int64_t drawn = 0;          ///< step whose samples are drawn next
    std::size_t drawn_samples = 0;   ///< samples of it that are drawn already
    std::int64_t taken = 0;          ///< step that is taken next
    std::int64_t oldest_in_use = 0;  ///< oldest step whose entry is not free
  };

  PreparedBatch& entry_of(std::int64_t step) { return entries_[static_cast<std::size_t>(step % size_)]; }
  [[nodiscard]] std::int64_t sample_bytes(std::size_t extents) const { return sample_bytes_[extents]; }
  void allocate();
  void draw_extents();
  void open(PreparedBatch& entry) noexcept;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::vector<TensorSpec>> specs_;  ///< by extents
  std::vector<std::int64_t> sample_bytes_;      ///< by extents
  std::vector<std::size_t> extents_;            ///< of the steps of this epoch; empty if all have the first ones
  DType real_;
  DistributedSampler sampler_;
  PrefetchOptions options_;
  std::vector<PreparedBatch> entries_;
  std::int64_t size_ = 1;  ///< entries in use
  Position at_;
};

}  // namespace lockstep::data
