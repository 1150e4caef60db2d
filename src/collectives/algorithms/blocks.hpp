// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/types.hpp"
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

/// Where the parts of consecutive blocks lie in a buffer whose parts differ in length.
struct PartOffsets {
  struct Part {
    std::int64_t begin = 0;  ///< of the first of the blocks
    std::int64_t step = 0;   ///< from each block to the next
  };
  std::vector<Part> parts;  ///< by rank
  bool is_alone = false;    ///< the buffer has only the part of the rank whose buffer it is
};

/// The same for both buffers of an operation.
struct PartTable {
  PartOffsets input;
  PartOffsets output;
};

/// Where a plan's offsets into input and output lie in the caller's memory. The plan of a block knows parts of
/// `part_count` elements, one behind the other; in memory part k of the block begins at `k · part_stride + offset`, or
/// where the table says. A buffer that is not divided is part 0. Scratch belongs to the block and is not mapped.
struct BlockView {
  std::int64_t part_count;
  std::int64_t part_stride;
  std::int64_t offset;
  const PartTable* table = nullptr;  ///< of parts that differ in length; else null
  std::int64_t block = 0;            ///< of those that the table is for

  /// @param owner  whose buffer it is
  /// @pre part_count > 0
  [[nodiscard]] std::int64_t input(int owner, std::int64_t plan_offset) const {
    return table == nullptr ? (*this)(plan_offset) : look_up(table->input, owner, plan_offset);
  }
  [[nodiscard]] std::int64_t output(int owner, std::int64_t plan_offset) const {
    return table == nullptr ? (*this)(plan_offset) : look_up(table->output, owner, plan_offset);
  }
  /// Of either buffer. @pre there is no table
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

/// How many elements (of the buffer, or of each part) a block has so that its messages are about `segment` elements:
/// all-reduce by ring: one segment for each rank, as a message is a chunk;
///   by double tree: two, one for each tree;
///   by recursive doubling: one, as a message is the whole block;
///   by halving-doubling and in tree order: ⌊log₂p⌋ + 1: messages are ½, ¼, … of a block, and with this their mean is a
///   segment, where a block of two segments would mean ever smaller messages on more ranks;
/// gather and scatter: 2/p of one, so that the largest message, of half the ranks' parts, is one;
/// all other operations: one.
/// @pre ranks ≥ 1, segment > 0
Count block_count(CollectiveKind kind, Algorithm algorithm, int ranks, Count segment);

}  // namespace lockstep::collectives
