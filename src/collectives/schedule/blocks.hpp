// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithms/all_reduce.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::collectives {

/// Elements `offset` … `offset + count` of a buffer, or of every rank's part if it consists of parts.
struct Block {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// The positions of the parts of consecutive blocks in a buffer whose parts differ in length.
struct PartOffsets {
  struct Part {
    std::int64_t begin = 0;  ///< position in the first of the blocks
    std::int64_t step = 0;   ///< distance from one block to the next
  };
  std::vector<Part> parts;  ///< by rank
  bool is_alone = false;    ///< the buffer holds its owner's part only
};

/// The tables of both buffers of an operation.
struct PartTable {
  PartOffsets input;
  PartOffsets output;
};

/// Maps a plan's offsets into input and output to the caller's memory. The plan of a block has concatenated parts of
/// `part_count` elements; in memory part k of the block begins at `k · part_stride + offset`, or at the position in the
/// table. A buffer without parts is part 0. Scratch belongs to the block and is not mapped.
struct BlockView {
  std::int64_t part_count;
  std::int64_t part_stride;
  std::int64_t offset;
  const PartTable* table = nullptr;  ///< for parts that differ in length; otherwise null
  std::int64_t block = 0;            ///< index among the blocks of the table

  /// @param owner  rank that owns the buffer
  /// @pre part_count > 0
  [[nodiscard]] std::int64_t input(int owner, std::int64_t plan_offset) const {
    return table == nullptr ? (*this)(plan_offset) : look_up(table->input, owner, plan_offset);
  }
  [[nodiscard]] std::int64_t output(int owner, std::int64_t plan_offset) const {
    return table == nullptr ? (*this)(plan_offset) : look_up(table->output, owner, plan_offset);
  }
  /// Maps an offset in the input or output. @pre there is no table
  [[nodiscard]] std::int64_t operator()(std::int64_t plan_offset) const {
    return plan_offset / part_count * part_stride + offset + plan_offset % part_count;
  }

 private:
  [[nodiscard]] std::int64_t look_up(const PartOffsets& offsets, int owner, std::int64_t plan_offset) const {
    const std::int64_t part = offsets.is_alone ? owner : plan_offset / part_count;
    const auto [begin, step] = offsets.parts[static_cast<std::size_t>(part)];
    return begin + block * step + plan_offset % part_count;
  }
};

/// Returns the number of elements (of the buffer, or of each part) of a block such that its messages have about
/// `segment` elements:
/// - all-reduce by messages: as many segments as the algorithm's row says. If messages are ½, ¼, … of a block, their
///   mean is then a segment, whereas a block of two segments would give smaller messages on more ranks;
/// - gather and scatter: 2/p of a segment, so that the largest message, with half the ranks' parts, is one segment;
/// - all other operations: one segment.
/// @pre ranks ≥ 1, segment > 0
Count block_count(CollectiveKind kind, Algorithm algorithm, int ranks, Count segment);

/// Consecutive blocks with equal counts.
struct EqualBlocks {
  std::int64_t blocks = 0;
  std::vector<std::int64_t> counts;  ///< count of each part in a block
  std::vector<std::int64_t> begin;   ///< where the first block begins in each part
};

/// Divides all parts into the same number of blocks with at most `longest` elements of each, so that every rank has
/// work in every block. The length of the result is at most the number of digits of a length in blocks: a remainder
/// goes into the last block or, if it does not fit, is divided again.
/// @pre longest ≥ 1
std::vector<EqualBlocks> cut_evenly(std::span<const std::int64_t> counts, Count longest);

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
