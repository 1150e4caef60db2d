// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "collectives/plan/partition.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// How an all-reduce in tree order cuts its buffer: into blocks, each of which the ranks add up in one slice each. The
/// others' contributions to a slice fit into scratch.
class SlicedBlocks {
 public:
  /// @pre scratch holds an element of each other rank; ranks ≥ 2
  SlicedBlocks(Count count, DType dtype, int ranks, Bytes scratch)
      : count_(count), ranks_(ranks), block_(scratch.value / ((ranks - 1) * size_of(dtype)) * ranks) {}
  SlicedBlocks() = default;

  [[nodiscard]] std::int64_t size() const { return block_ == 0 ? 0 : (count_.value + block_ - 1) / block_; }

  struct Slice {
    Count offset;  ///< in the whole buffer
    Count count;
  };
  /// What `rank` adds up of block `block`.
  [[nodiscard]] Slice slice(std::int64_t block, int rank) const {
    const std::int64_t begin = block * block_;
    const auto part = collectives::chunk({std::min(block_, count_.value - begin)}, ranks_, rank);
    return {{begin + part.offset}, {part.count}};
  }

 private:
  Count count_;
  int ranks_ = 1;
  std::int64_t block_ = 0;  // elements of all but the last
};

}  // namespace lockstep::backends
