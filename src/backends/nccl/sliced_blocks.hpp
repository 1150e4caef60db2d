// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "collectives/plan/partition.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// The division of a buffer by an all-reduce in tree order: the buffer into blocks, and each block into one slice for
/// each rank, which that rank reduces. The other ranks' operands for a slice fit into scratch.
class SlicedBlocks {
 public:
  /// @param operands  the most that a rank gets from all others for each element
  /// @pre scratch has room for an element of each; ranks ≥ 2
  SlicedBlocks(Count count, DType dtype, int ranks, int operands, Bytes scratch)
      : count_(count), ranks_(ranks), block_(scratch.value / (operands * size_of(dtype)) * ranks) {}
  SlicedBlocks() = default;

  [[nodiscard]] std::int64_t size() const { return block_ == 0 ? 0 : (count_.value + block_ - 1) / block_; }

  struct Slice {
    Count offset;  ///< in the whole buffer
    Count count;
  };
  /// Returns the slice of block `block` that `rank` reduces.
  [[nodiscard]] Slice slice(std::int64_t block, int rank) const {
    const std::int64_t begin = block * block_;
    const auto part = collectives::chunk({std::min(block_, count_.value - begin)}, ranks_, rank);
    return {{begin + part.offset}, {part.count}};
  }

 private:
  Count count_;
  int ranks_ = 1;
  std::int64_t block_ = 0;  // elements of every block but the last
};

}  // namespace lockstep::backends
