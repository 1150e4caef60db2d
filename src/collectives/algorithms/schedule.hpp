// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <span>

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
  Count count;  ///< elements of the buffer; of each part where there is one for each rank; 0 for a barrier
  Rank root;    ///< broadcast and reduce only
  /// What the rank brings; exactly one leaf to an all_gather or all_to_all, which is never in place; of no meaning to
  /// broadcast and barrier.
  Contribution own;
  int radix = 2;                ///< largest group of halving-doubling and recursive doubling, across nodes too
  ClusterShape shape{};         ///< for algorithms that share memory; empty: all ranks on one node
  Reach reach = Reach::direct;  ///< of this rank's data, for algorithms that share memory
};

/// The whole of one rank's part in a collective: blocks, and a plan for each.
class Schedule {
 public:
  /// @param size  how many of the blocks there are
  /// @param full  the plan of a block of the usual size
  /// @param tail  the plan of the last block if that is shorter
  Schedule(Blocks blocks, std::int64_t size, std::int64_t part_stride, Plan full, Plan tail);

  /// How many plans to run: none for an empty buffer, one for a barrier.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// @pre 0 ≤ index < size()
  [[nodiscard]] Block block(std::int64_t index) const { return blocks_[index]; }
  [[nodiscard]] BlockView view(std::int64_t index) const;
  /// At most two distinct plans: all blocks but the last share one, so that its dependencies are derived once.
  [[nodiscard]] const Plan& plan(std::int64_t index) const { return is_tail(index) ? tail_ : full_; }
  [[nodiscard]] bool is_tail(std::int64_t index) const { return block(index).count < full_count_; }
  [[nodiscard]] const Plan& full() const { return full_; }
  [[nodiscard]] const Plan& tail() const { return tail_; }

 private:
  Blocks blocks_;
  std::int64_t size_;
  std::int64_t full_count_;
  std::int64_t part_stride_;
  Plan full_;
  Plan tail_;
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

/// @param algorithm  for all_reduce; broadcast and reduce are binomial, all_gather and reduce_scatter are rings,
///                   all_to_all is pairwise, barrier is dissemination
/// @param segment    how many elements a message should have
/// @param staging    how large a block's staging area may be; without messages a block is as large as that
/// @throws Error{invalid_argument} for a rank or root outside 0 … ranks−1, a negative count, a barrier with elements, a
///         segment below 1, a radix below 2, a function with anything but an all_reduce by slices, an all_gather, an
///         all_to_all or anything in shared memory with another number of leaves than one, an all_to_all in place, a
///         shape of another number of ranks, or hierarchical_tree_order on nodes that break the canonical order
Schedule make_schedule(Rank me, const CollectiveDescription& description, Algorithm algorithm, Count segment,
                       Count staging = {std::numeric_limits<std::int64_t>::max()});

}  // namespace lockstep::collectives
