// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "collectives/plan/partition.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// The division of a buffer by an all-reduce in tree order: the buffer into blocks, and each block into one slice for
/// each rank, which that rank reduces. The other ranks' contributions to a slice fit into scratch.
class SlicedBlocks {
 public:
  /// @pre scratch has room for an element of each other rank; ranks ≥ 2
  SlicedBlocks(Count count, DType dtype, int ranks, Bytes scratch)
      : count_(count), ranks_(ranks), block_(scratch.value / ((ranks - 1) * size_of(dtype)) * ranks) {}
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
