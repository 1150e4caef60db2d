// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithms/blocks.hpp"

/// Division of buffers with parts of different lengths into blocks.
namespace lockstep::collectives {

/// Consecutive blocks with equal counts.
struct Cut {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> counts;  ///< count of each part in a block
  std::vector<std::int64_t> begin;   ///< where the first block begins in each part
};

/// Divides all parts into the same number of blocks with at most `longest` elements of each, so that every rank has
/// work in every block. The number of cuts is at most the number of digits of a length in blocks: a remainder goes into
/// the last block or, if it does not fit, is divided again.
/// @pre longest ≥ 1
std::vector<Cut> cut_evenly(std::span<const std::int64_t> counts, Count longest);

/// The messages in which one rank sends `count` elements to another: full ones and then a shorter one, which may be
/// empty. Two different counts therefore differ in the length of a message that both have, and a rank that expects
/// another count than the peer sends detects the mismatch.
class PairMessages {
 public:
  /// @param segment  desired length of a message; the length is larger if there would be more than 64 full messages
  PairMessages(std::int64_t count, Count segment);
  [[nodiscard]] std::int64_t size() const { return count_ / length_ + 1; }
  /// Returns the length of a full message.
  [[nodiscard]] std::int64_t length() const { return length_; }
  /// Returns the length of a message, or `nothing` beyond the last.
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
