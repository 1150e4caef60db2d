// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// The layout of a buffer in a plan that has one part for each rank: a part begins every `stride` elements, and has at
/// most that many elements.
class Parts {
 public:
  /// @param stride  at least the count of the longest part
  Parts(Count stride, std::vector<std::int64_t> counts) : stride_(stride.value), counts_(std::move(counts)) {}
  static Parts equal(int ranks, Count count) {
    return {count, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), count.value)};
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(counts_.size()); }
  [[nodiscard]] Count stride() const { return {stride_}; }
  [[nodiscard]] std::int64_t count(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  /// Returns the part of `rank`, in a memory that holds all parts.
  [[nodiscard]] Range of(int rank, Memory memory, int leaf = 0) const {
    return {memory, rank * stride_, count(rank), leaf};
  }
  /// Returns the part of `rank`, in a memory that holds no other part.
  [[nodiscard]] Range alone(int rank, Memory memory) const { return {memory, 0, count(rank)}; }

 private:
  std::int64_t stride_;
  std::vector<std::int64_t> counts_;
};

/// The contribution of a rank to a reduction: any number of leaves, possibly none.
struct Contribution {
  int leaves = 1;
  bool in_place = false;  ///< leaf 0 is where the result goes; unused without leaves
};

/// Prepends to `exchange` the steps that gather the rank's leaves at `destination`: nothing or a copy for one leaf,
/// sums in the order of the leaves for several, the neutral element for none.
/// @param destination  as many elements as each leaf has; the part of the output that `exchange` starts from
Plan contribute(Plan exchange, const Contribution& own, const Range& destination);

}  // namespace lockstep::collectives
