// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithm.hpp"
#include "collectives/algorithms/blocks.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"

namespace lockstep::collectives {

/// A collective operation from the view of one rank. All ranks pass the same values except for `own` and `reach`.
struct CollectiveDescription {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 1;
  /// Elements of the buffer, or of each part if each rank has one, or of the longest part if they differ; 0 for a
  /// barrier.
  Count count;
  Rank root;  ///< broadcast, reduce, gather and scatter only
  /// The rank's contribution: exactly one leaf for all_gather, gather, scatter and all_to_all, which is never in place;
  /// unused by broadcast and barrier. For gather and scatter, in place has a meaning at the root only.
  Contribution own;
  int radix = 2;                ///< largest group of halving-doubling and recursive doubling, also between nodes
  ClusterShape shape{};         ///< for algorithms that share memory; empty: all ranks on one node
  Reach reach = Reach::direct;  ///< reach of this rank's data, for algorithms that share memory
  /// Elements of each rank's part, if they may differ. For an all_to_all_v: elements that this rank sends to each rank
  /// (−1: no message in this block), which differ between ranks.
  std::vector<std::int64_t> parts{};
  std::vector<std::int64_t> received{};  ///< all_to_all_v only: elements that come from each rank
  /// all_reduce only: the leaves of all ranks, as in `Leaves`; `own` is this rank's share. Without leaves each rank has
  /// one operand, or as many as `own` has.
  LeafShares leaves{};
};

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

/// The plan of one block of `description.count` elements: contributions, then the exchange.
/// @throws std::bad_alloc only
Plan make_plan(Rank me, const CollectiveDescription& description, Algorithm algorithm);

/// The order in which `algorithm` claims to add `element` of a block of `count` elements, by the function beside the
/// algorithm.
/// @param contributions  one for each rank
/// @param shape          as in CollectiveDescription
Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape = {});

/// @param algorithm  for all_reduce; for other operations only whether it uses shared memory, which all_to_all_v never
///                   does. Broadcast, reduce, gather and scatter are binomial, all_gather and reduce_scatter are rings,
///                   all_to_all is pairwise, and barrier is dissemination, whether or not the parts have different
///                   lengths.
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

/// Returns whether the operation uses shared memory. Only all-reduces are hierarchical; other operations use messages
/// with these algorithms. An all_to_all_v always uses messages, because a rank knows only its own counts, so the ranks
/// cannot divide the parts of all pairs into the same blocks.
inline bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  return uses_shared_memory(algorithm) && kind != CollectiveKind::all_to_all_v &&
         (algorithm == Algorithm::shared_memory || kind == CollectiveKind::all_reduce);
}

inline ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

inline Parts parts_of(const CollectiveDescription& d) {
  return d.parts.empty() ? Parts::equal(d.ranks, d.count) : Parts(d.count, d.parts);
}

}  // namespace lockstep::collectives
