// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/algorithms/operations.hpp"
#include "collectives/schedule/blocks.hpp"

namespace lockstep::collectives {

/// Consecutive blocks of a collective that share a plan, whose dependencies are derived once.
struct Stretch {
  std::int64_t end = 0;         ///< the block after the last one
  std::int64_t part_count = 1;  ///< distance between parts in the plan
  Plan plan;
  PartTable table{};  ///< for parts that differ in length
};

/// All of one rank's work in a collective: blocks, and a plan for each.
class Schedule {
 public:
  /// @param part_stride  distance between the parts in memory, if they have equal length; otherwise absent
  /// @param step         number of elements of each part in a block then, except for a shorter last block
  Schedule(std::vector<Stretch> stretches, std::optional<Count> part_stride, Count step = {})
      : stretches_(std::move(stretches)), part_stride_(part_stride), step_(step) {}

  /// Returns the number of plans to run: none for an empty buffer, one for a barrier.
  [[nodiscard]] std::int64_t size() const { return stretches_.empty() ? 0 : stretches_.back().end; }
  /// Returns the stretches. There are at most two if parts have equal length, since all blocks but the last share a
  /// plan.
  [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Returns the index of the stretch that contains a block. @pre 0 ≤ block < size(), as for the functions below
  [[nodiscard]] std::size_t stretch_of(std::int64_t block) const;
  [[nodiscard]] const Plan& plan(std::int64_t block) const { return stretches_[stretch_of(block)].plan; }
  [[nodiscard]] BlockView view(std::int64_t block) const;
  /// @pre parts have equal length, and the operation is not a barrier
  [[nodiscard]] Block block(std::int64_t index) const;

 private:
  std::vector<Stretch> stretches_;
  std::optional<Count> part_stride_;
  Count step_;
};

/// Divides a collective into blocks and makes their plans.
/// @param algorithm  for all_reduce; for other operations only whether it uses shared memory
/// @param segment    desired number of elements of a message
/// @param staging    limit of a block's staging area; without messages blocks have this size
/// @throws Error{invalid_argument} for a rank or root outside 0 … ranks−1, a negative count, a barrier with elements, a
///         segment below 1, a radix below 2, an all_gather, an all_to_all or any operation in shared memory with a
///         number of leaves other than one, an all_to_all in place, a shape of another number of ranks, counts of parts
///         that are not one for each rank and between 0 and the count, hierarchical_tree_order on nodes that break the
///         canonical order, or leaves of a tree with anything but an all_reduce in tree order, fewer than ranks, or
///         another share of them than `Leaves` specifies
Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment,
                       Count staging = {std::numeric_limits<std::int64_t>::max()});

}  // namespace lockstep::collectives
