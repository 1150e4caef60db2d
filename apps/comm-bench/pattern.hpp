// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/buffer.hpp"

namespace lockstep::comm_bench {

/// A sequence of elements that repeats after `period`, written and compared at the speed of memory. Its values are
/// small integers that change with rank, element and repetition. The sum over up to 255 ranks is exact in every dtype
/// and whatever the order of addition: it fits into a uint8, where some MPI libraries saturate and others wrap round,
/// and a bfloat16 has all integers up to 256. The period is prime, so that data in the wrong place are wrong data.
class Pattern {
 public:
  static constexpr std::int64_t period = 1021;

  Pattern(DType dtype, int ranks);

  /// Becomes what `rank` brings in this repetition.
  void set_input(int rank, std::int64_t repetition);
  /// Becomes the sum of what all ranks bring in this repetition.
  void set_sum(std::int64_t repetition);

  /// Overwrites `to` with elements first, first+1, … of the sequence. @pre `to` has the pattern's dtype
  void write(const Buffer& to, std::int64_t first) const;
  /// How many elements of `in` differ from elements first, first+1, … of the sequence. @pre as write
  [[nodiscard]] std::int64_t differences(const ConstBuffer& in, std::int64_t first) const;

 private:
  void set(int first_rank, int last_rank, std::int64_t repetition);

  DType dtype_;
  int ranks_;
  std::vector<std::byte> tile_;  // one period
};

}  // namespace lockstep::comm_bench
