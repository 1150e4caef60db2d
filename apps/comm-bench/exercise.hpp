// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collective_parts.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// A periodic sequence of elements that is written and compared at the speed of memory. Its values are small integers
/// that depend on rank, element and repetition. The sum over up to 255 ranks is exact in every dtype and in every order
/// of addition: it fits into a uint8, where some MPI libraries saturate and others wrap around, and bfloat16 represents
/// all integers up to 256. The period is prime, so that misplaced data are wrong data.
class Pattern {
 public:
  static constexpr std::int64_t period = 1021;

  Pattern(DType dtype, int ranks);

  /// Sets the sequence to the input of `rank` in this repetition.
  void set_input(int rank, std::int64_t repetition) { set(rank, rank, repetition); }
  /// Sets the sequence to the sum over the inputs of all ranks in this repetition.
  void set_sum(std::int64_t repetition) { set_sum_up_to(ranks_ - 1, repetition); }
  /// Sets the sequence to the sum over the inputs of ranks 0 … `last`; if `last` is −1, to the neutral element of sums.
  void set_sum_up_to(int last, std::int64_t repetition) { set(0, last, repetition); }

  /// Overwrites `to` with elements first, first+1, … of the sequence. @pre `to` has the pattern's dtype
  void write(const Buffer& to, std::int64_t first) const;
  /// Returns how many elements of `in` differ from elements first, first+1, … of the sequence. @pre as write
  [[nodiscard]] std::int64_t differences(const ConstBuffer& in, std::int64_t first) const;

 private:
  void set(int first_rank, int last_rank, std::int64_t repetition);

  DType dtype_;
  int ranks_;
  std::vector<std::byte> tile_;  // one period
};

/// Returns the number of parts of the larger buffer: one for each rank in all_gather, reduce_scatter, gather, scatter
/// and all_to_all, with or without _v; otherwise one.
int parts_of(CollectiveKind kind, int ranks);

/// A collective of one size on this rank's memory, with its input and the check of its result.
class Exercise {
 public:
  struct Shape {
    CollectiveKind kind = CollectiveKind::all_reduce;
    DType dtype = DType::float32;
    Rank me;
    int ranks = 1;
    Count part;  ///< elements of the buffer, or of each of its parts; the mean if they differ
  };
  /// Returns the lengths of the parts in the buffer of `shape.me`. They are equal, or grow with the rank from 2/(p+1)
  /// to 2p/(p+1) of the mean. In an all_to_all_v they are the parts that this rank sends to each rank, which are as
  /// long as those that it receives.
  static std::vector<Count> parts_of(const Shape& shape);
  /// Returns the memory that an exercise needs.
  static Bytes memory_needed(const Shape& shape);

  /// @pre `memory` holds memory_needed(shape) and outlives the exercise
  Exercise(const Shape& shape, void* memory);
  Exercise(const Exercise&) = delete;
  Exercise& operator=(const Exercise&) = delete;
  virtual ~Exercise() = default;

  /// Returns the size of the buffer, to which bandwidths refer; 0 for a barrier.
  [[nodiscard]] Bytes bytes() const { return whole_.bytes(); }
  /// Returns the number of elements of the buffer, or of each of its parts; 0 for a barrier.
  [[nodiscard]] Count count() const { return shape_.part; }
  /// Returns the operation. It is in place, except for reduce_scatter, because MPI's in-place form of that is another
  /// operation, and for all_to_all, which has no such form. The root is rank 0. The counts belong to the exercise.
  [[nodiscard]] virtual Collective collective() const;
  /// Overwrites the whole memory with this rank's input for this repetition.
  virtual void refill(std::int64_t repetition);
  /// Returns the number of wrong elements in this rank's result. If a reduce or gather has no result here, it checks
  /// the memory that the operation must not change.
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
  Buffer result_;  // the whole buffer, or separate memory if the operation is not in place
};

}  // namespace lockstep::comm_bench
