// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/buffer.hpp"

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
  void set_input(int rank, std::int64_t repetition);
  /// Sets the sequence to the sum over the inputs of all ranks in this repetition.
  void set_sum(std::int64_t repetition);

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

}  // namespace lockstep::comm_bench
