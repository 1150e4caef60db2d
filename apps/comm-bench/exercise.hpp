// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/comm-bench/pattern.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// Equal parts of the larger buffer: one for each rank in all_gather, reduce_scatter and all_to_all, else one.
int parts_of(CollectiveKind kind, int ranks);

/// A collective on this rank's memory, of one size: its input and the proof of its result.
class Exercise {
 public:
  struct Shape {
    CollectiveKind kind = CollectiveKind::all_reduce;
    DType dtype = DType::float32;
    Rank me;
    int ranks = 1;
    Count part;  ///< elements of the buffer, or of each of its parts
  };
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
  /// none. The root is rank 0.
  [[nodiscard]] virtual Collective collective() const;
  /// Overwrites the whole memory with what this rank brings in this repetition.
  virtual void refill(std::int64_t repetition);
  /// How many elements of this rank's result are wrong; where a reduce leaves none, of what it must not touch.
  [[nodiscard]] virtual std::int64_t wrong(std::int64_t repetition);

 private:
  [[nodiscard]] Buffer part(const Buffer& of, int index) const {
    return slice(of, {index * shape_.part.value}, shape_.part);
  }
  [[nodiscard]] std::int64_t wrong_parts(std::int64_t repetition);

  Shape shape_;
  Pattern pattern_;
  Buffer whole_;
  Buffer result_;  // the whole, or where the operation is not in place memory of its own
};

}  // namespace lockstep::comm_bench
