// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <vector>

#include "collectives/plan/plan.hpp"
#include "lockstep/base/leaves.hpp"

/// Rank and element arithmetic that several algorithms share.
namespace lockstep::collectives {

/// Returns part `index` of `parts` nearly equal parts of the output. If the count is not divisible, the first parts are
/// longer by one element.
inline Range chunk(Count count, int parts, int index) {
  const Share part = share_of(count.value, index, parts);
  return {Memory::output, part.first, part.count};
}

/// Returns the index of the chunk that contains `element`.
inline int chunk_of(Count count, int parts, std::int64_t element) {
  const std::int64_t size = count.value / parts;
  const std::int64_t longer = count.value % parts;
  const std::int64_t in_longer = longer * (size + 1);
  return static_cast<int>(element < in_longer ? element / (size + 1) : longer + (element - in_longer) / size);
}

/// Returns the lower or upper half of a range. The upper half is longer by one element if the count is odd.
inline Range half(Range whole, bool is_upper) {
  const std::int64_t middle = whole.count / 2;
  if (is_upper) whole.offset += middle;
  whole.count = is_upper ? whole.count - middle : middle;
  return whole;
}

/// Returns the rank on a ring; `value` may be negative by any number of turns.
inline int wrap(int value, int ranks) { return ((value % ranks) + ranks) % ranks; }

/// Returns the largest power of two that does not exceed `ranks` (≥ 1).
constexpr int floor_power_of_two(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

/// Returns ⌊log₂ ranks⌋ for ranks ≥ 1.
constexpr int floor_log2(int ranks) { return std::bit_width(static_cast<unsigned>(ranks)) - 1; }

/// Returns ⌈log₂ ranks⌉ for ranks ≥ 1.
constexpr int ceil_log2(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

/// Returns nearly equal powers of two, at most `radix` (≥ 2), whose product is `participants`, a power of two. The
/// larger ones come first.
inline std::vector<int> radices(int participants, int radix) {
  const int bits = floor_log2(participants);
  const int widest = floor_log2(radix);
  const int rounds = (bits + widest - 1) / widest;
  std::vector<int> result;
  for (int round = 0; round < rounds; ++round) result.push_back(1 << (bits / rounds + (round < bits % rounds ? 1 : 0)));
  return result;
}

}  // namespace lockstep::collectives
