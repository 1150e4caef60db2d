// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithms/blocks.hpp"

/// Blocks of parts that differ in length.
namespace lockstep::collectives {

/// Blocks in a row that are alike: so many elements of each rank's part.
struct Cut {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> counts;  ///< of each part in a block
  std::vector<std::int64_t> begin;   ///< where the first block begins in each part
};

/// Cuts all parts into the same number of blocks with at most `longest` elements of each, so that all ranks have
/// something to do in all of them. There are few cuts, as many as it takes digits to write a length in blocks: what
/// does not divide goes into the last block or, where there is no room for it, is cut in its turn.
/// @pre longest ≥ 1
std::vector<Cut> cut_evenly(std::span<const std::int64_t> counts, Count longest);

/// The messages by which one rank sends `count` elements to another: full ones and then a shorter one, which may be
/// empty. So messages of two different counts differ in the length of one that both have, and a rank that expects
/// another count than is sent finds out.
class PairMessages {
 public:
  /// @param segment  of the message; longer where there would be more than a few dozen
  PairMessages(std::int64_t count, Count segment);
  [[nodiscard]] std::int64_t size() const { return count_ / length_ + 1; }
  /// How long the full ones are.
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// @return `nothing` beyond the last
  [[nodiscard]] std::int64_t operator[](std::int64_t index) const {
    if (index >= size()) return nothing;
    return index + 1 < size() ? length_ : count_ % length_;
  }
  static constexpr std::int64_t nothing = -1;

 private:
  std::int64_t count_;
  std::int64_t length_;
};

}  // namespace lockstep::collectives
