// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/algorithms/blocks.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/contribution.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/collectives/algorithms/algorithm.hpp"

namespace lockstep::collectives {

/// A collective operation as one rank takes part in it. All ranks give the same values except for `own` and
/// `reach`.
struct CollectiveDescription {
  /// A reduce_then keeps for its function what the output held before, unless it is in place.
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 1;
  /// Elements of the buffer; of each part where there is one for each rank, of the longest where they differ; 0 for a
  /// barrier.
  Count count;
  Rank root;  ///< broadcast, reduce, gather and scatter only
  /// What the rank brings; exactly one leaf to all_gather, gather, scatter and all_to_all, which is never in place; of
  /// no meaning to broadcast and barrier. In place is of no meaning to a gather or scatter but at the root.
  Contribution own;
  int radix = 2;                ///< largest group of halving-doubling and recursive doubling, across nodes too
  ClusterShape shape{};         ///< for algorithms that share memory; empty: all ranks on one node
  Reach reach = Reach::direct;  ///< of this rank's data, for algorithms that share memory
  /// Elements of each rank's part, where they may differ; in an all_to_all_v of what goes to each, −1 in a block that
  /// has no message. This rank's own there, and not the same on all ranks.
  std::vector<std::int64_t> parts{};
  std::vector<std::int64_t> received{};  ///< all_to_all_v only: of what comes from each rank
  /// all_reduce only: how many leaves all ranks bring, as `Leaves` says, of which `own` is this rank's share; 0: each
  /// brings one, or what `own` says.
  int leaves = 0;
};

/// Consecutive blocks of a collective that share a plan, so that its dependencies are derived once.
struct Stretch {
  std::int64_t end = 0;         ///< the first block behind them
  std::int64_t part_count = 1;  ///< how far apart the plan has the parts
  Plan plan;
  PartTable table{};  ///< where parts differ in length
};

/// The whole of one rank's part in a collective: blocks, and a plan for each.
class Schedule {
 public:
  /// @param part_stride  how far apart the parts lie in memory, where they are of equal length; else absent
  /// @param step         how many elements of each part a block has then, but for a shorter last one
  Schedule(std::vector<Stretch> stretches, std::optional<Count> part_stride, Count step = {})
      : stretches_(std::move(stretches)), part_stride_(part_stride), step_(step) {}

  /// How many plans to run: none for an empty buffer, one for a barrier.
  [[nodiscard]] std::int64_t size() const { return stretches_.empty() ? 0 : stretches_.back().end; }
  /// Few: two at most where parts are of equal length, as all blocks but the last have one plan.
  [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }
  /// The number of the stretch that has a block. @pre 0 ≤ block < size(), as for the others
  [[nodiscard]] std::size_t stretch_of(std::int64_t block) const;
  [[nodiscard]] const Plan& plan(std::int64_t block) const { return stretches_[stretch_of(block)].plan; }
  [[nodiscard]] BlockView view(std::int64_t block) const;
  /// @pre parts are of equal length; not a barrier
  [[nodiscard]] Block block(std::int64_t index) const;

 private:
  std::vector<Stretch> stretches_;
  std::optional<Count> part_stride_;
  Count step_;
};

/// What runs a reduce_then where `algorithm` would run an all-reduce: another one where that never has the sums in
/// slices. For the double tree it is the ring, for recursive doubling halving-doubling, which adds in the same order.
Algorithm with_slices(Algorithm algorithm);

/// The plan of one block of `description.count` elements: contributions, then the exchange.
/// @throws std::bad_alloc only
Plan make_plan(Rank me, const CollectiveDescription& description, Algorithm algorithm);

/// The order in which `algorithm` claims to add up `element` of a block of `count` elements: the function that stands
/// beside it.
/// @param contributions  one for each rank
/// @param shape          as in CollectiveDescription
Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape = {});

/// @param algorithm  for all_reduce, and whether others share memory, which all_to_all_v never does; broadcast, reduce,
/// gather and scatter are binomial, all_gather and
///                   reduce_scatter are rings,
///                   all_to_all is pairwise, barrier is dissemination, with parts of different
///                   lengths as without
/// @param segment    how many elements a message should have
/// @param staging    how large a block's staging area may be; without messages a block is as large as that
/// @throws Error{invalid_argument} for a rank or root outside 0 … ranks−1, a negative count, a barrier with elements, a
///         segment below 1, a radix below 2, a function with anything but an all_reduce by slices, an all_gather, an
///         all_to_all or anything in shared memory with another number of leaves than one, an all_to_all in place, a
///         shape of another number of ranks, counts of parts that are not one for each rank and between 0 and the
///         count, hierarchical_tree_order on nodes that break the canonical order, or leaves of a tree with
///         anything but an all_reduce in tree order, fewer than ranks, or another share of them than `Leaves` says
Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment,
                       Count staging = {std::numeric_limits<std::int64_t>::max()});

}  // namespace lockstep::collectives
