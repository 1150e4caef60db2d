// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "apps/comm-bench/pattern.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// Parts of the larger buffer: one for each rank in all_gather, reduce_scatter, gather, scatter and all_to_all, with or
/// without _v, else one.
int parts_of(CollectiveKind kind, int ranks);

/// A collective on this rank's memory, of one size: its input and the proof of its result.
class Exercise {
 public:
  struct Shape {
    CollectiveKind kind = CollectiveKind::all_reduce;
    DType dtype = DType::float32;
    Rank me;
    int ranks = 1;
    Count part;  ///< elements of the buffer, or of each of its parts, in the mean where they differ
  };
  /// The lengths of the parts in the buffer of `shape.me`: equal, or growing with the rank from 2/(p+1) to 2p/(p+1) of
  /// the mean; in an all_to_all_v of what that rank sends to each and receives from each, which is the same.
  static std::vector<Count> parts_of(const Shape& shape);
  /// Bytes of memory that an exercise works on.
  static Bytes memory_needed(const Shape& shape);

  /// @pre `memory` holds memory_needed(shape) and outlives the exercise
  Exercise(const Shape& shape, void* memory);
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;
  virtual ~Exercise() = default;

  /// The buffer's size, which bandwidths are of; 0 for a barrier.
  [[nodiscard]] Bytes bytes() const { return whole_.bytes(); }
  /// Elements of the buffer, or of each of its parts; 0 for a barrier.
  [[nodiscard]] Count count() const { return shape_.part; }
  /// In place, but for reduce_scatter, as MPI's in-place form of it is another operation, and all_to_all, which has
  /// none. The root is rank 0. Its counts are the exercise's.
  [[nodiscard]] virtual Collective collective() const;
  /// Overwrites the whole memory with what this rank brings in this repetition.
  virtual void refill(std::int64_t repetition);
  /// How many elements of this rank's result are wrong; where a reduce or gather leaves none, of what it must
  /// not touch.
  [[nodiscard]] virtual std::int64_t wrong(std::int64_t repetition);

 private:
  [[nodiscard]] Buffer part(const Buffer& of, int index) const {
    return slice(of, offset_of_part(parts_, {index}), parts_[static_cast<std::size_t>(index)]);
  }
  [[nodiscard]] std::int64_t wrong_parts(std::int64_t repetition);

  Shape shape_;
  std::vector<Count> parts_;
  Pattern pattern_;
  Buffer whole_;
  Buffer result_;  // the whole, or where the operation is not in place memory of its own
};

}  // namespace lockstep::comm_bench
