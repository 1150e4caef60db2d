// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/plan/plan.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/collectives/algorithms/algorithm.hpp"

namespace lockstep::collectives {

/// Elements `offset` … `offset + count` of a buffer, or of every rank's part where there are parts.
struct Block {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// A buffer cut into blocks of equal size and a shorter last one. Each block is a collective of its own with a plan of
/// its own; pipelining is to have several under way.
class Blocks {
 public:
  /// @pre block > 0
  Blocks(Count total, Count block) : total_(total.value), block_(block.value) {}

  [[nodiscard]] std::int64_t size() const { return total_ / block_ + (total_ % block_ == 0 ? 0 : 1); }
  /// @pre 0 ≤ index < size()
  [[nodiscard]] Block operator[](std::int64_t index) const {
    const std::int64_t rest = total_ - index * block_;
    return {index * block_, rest < block_ ? rest : block_};
  }

 private:
  std::int64_t total_;
  std::int64_t block_;
};

/// Where a plan's offsets into input and output lie in the caller's memory. The plan of a block knows parts of
/// `part_count` elements, one behind the other; in memory part k of the block begins at `k · part_stride + offset`.
/// A buffer that is not divided is part 0. Scratch belongs to the block and is not mapped.
struct BlockView {
  std::int64_t part_count;
  std::int64_t part_stride;
  std::int64_t offset;

  /// @pre part_count > 0
  [[nodiscard]] std::int64_t operator()(std::int64_t plan_offset) const {
    return plan_offset / part_count * part_stride + offset + plan_offset % part_count;
  }
};

/// How many elements (of the buffer, or of each part) a block has so that its messages are about `segment` elements:
/// all-reduce by ring: one segment for each rank, as a message is a chunk;
///   by double tree: two, one for each tree;
///   by recursive doubling: one, as a message is the whole block;
///   by halving-doubling and in tree order: ⌊log₂p⌋ + 1: messages are ½, ¼, … of a block, and with this their mean is a
///   segment, where a block of two segments would mean ever smaller messages on more ranks;
/// all other operations: one.
/// @pre ranks ≥ 1, segment > 0
Count block_count(CollectiveKind kind, Algorithm algorithm, int ranks, Count segment);

}  // namespace lockstep::collectives
