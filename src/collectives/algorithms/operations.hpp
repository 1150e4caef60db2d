// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/leaves.hpp"

/// The operations. Those other than all_reduce have one algorithm for messages and one for shared memory (node.hpp).
namespace lockstep::collectives {

/// How the other ranks of a node access a rank's data. Ranks need not agree on direct or staged.
enum class Reach : std::uint8_t {
  direct,  ///< input and output are in memory that all of them can access
  staged,  ///< only the staging area is; data for other ranks are copied into it, and their data out of it
  pulled,  ///< staged, and every rank reduces everything itself, with a single synchronization; on all ranks or none
};

/// A collective operation from the view of one rank. All ranks pass the same values except for `own` and `reach`.
struct CollectiveDescription {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 1;
  /// Elements of the buffer, or of each part if each rank has one, or of the longest part if they differ; 0 for a
  /// barrier.
  Count count;
  Rank root;  ///< broadcast, reduce, gather and scatter only
  /// The rank's contribution: exactly one leaf for scans, all_gather, gather, scatter and all_to_all, which is never in
  /// place;
  /// unused by broadcast and barrier. For gather and scatter, in place has a meaning at the root only.
  Contribution own;
  int radix = 2;                ///< largest group of halving-doubling and recursive doubling, also between nodes
  ClusterShape shape{};         ///< for algorithms that share memory; empty: all ranks on one node
  Reach reach = Reach::direct;  ///< reach of this rank's data, for algorithms that share memory
  /// How many consecutive ranks of a node share a cache, for an all_reduce in shared memory; 0: it is not known, or
  /// does not matter.
  int ranks_per_cache = 0;
  /// Elements of each rank's part, if they may differ. For an all_to_all_v: elements that this rank sends to each rank
  /// (−1: no message in this block), which differ between ranks.
  std::vector<std::int64_t> parts{};
  std::vector<std::int64_t> received{};  ///< all_to_all_v only: elements that come from each rank
  /// all_reduce only: the leaves of all ranks, as in `Leaves`; `own` is this rank's share. Without leaves each rank has
  /// one operand, or as many as `own` has.
  LeafShares leaves{};
};

inline ClusterShape shape_of(const CollectiveDescription& d) {
  return d.shape.ranks() > 0 ? d.shape : ClusterShape{std::vector<int>(static_cast<std::size_t>(d.ranks))};
}

inline Parts parts_of(const CollectiveDescription& d) {
  return d.parts.empty() ? Parts::equal(d.ranks, d.count) : Parts(d.count, d.parts);
}

/// Returns which operands each rank has in shared memory: its leaves, or one.
inline LeafShares operands_of(const CollectiveDescription& d) {
  return d.leaves.total() > 0 ? d.leaves : LeafShares(d.ranks);
}

/// Returns one rank's plan for a block. @throws std::bad_alloc only; nothing is communicated
using OperationPlan = Plan (*)(Rank me, const CollectiveDescription& d);
/// Returns the cost of one block alone, in buffers, or in parts if each rank has one. It is exact if each rank
/// contributes one leaf.
using OperationCost = BlockCost (*)(int ranks);

/// How an operation runs.
struct OperationRow {
  CollectiveKind kind = CollectiveKind::barrier;
  std::string_view name;  ///< of the algorithm for messages
  OperationPlan plan = nullptr;
  OperationCost cost = nullptr;
  OperationPlan shared_plan = nullptr;  ///< in shared memory; null: the operation always uses messages
  OperationCost shared_cost = nullptr;
};

/// Returns the row of an operation. @pre it is neither all_reduce nor a message
const OperationRow& row_of(CollectiveKind kind);

/// Returns all operations that have plans, all_reduce first.
std::span<const CollectiveKind> planned_kinds();

/// Binomial-tree broadcast of the root's output: in each round every rank that has the data sends them to a rank that
/// does not, the largest subtree first.
/// @cost   ⌈log₂p⌉(α + nβ)
/// @source Johnsson & Ho, IEEE Trans. Computers 38(9), 1989
Plan binomial_broadcast(Rank me, const CollectiveDescription& d);

/// Ring all-gather in the output: each part with elements goes once around the ring.
/// @cost   (p−1)α + (p−1)·nβ   (n in bytes per rank; if the parts differ, an upper bound with n of the longest)
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_all_gather(Rank me, const CollectiveDescription& d);

/// Ring reduce-scatter from the input (all parts, not written) to the output (the rank's own part). Each of the rank's
/// leaves is an input with all parts. Partial sums use up to twice the longest part of scratch. The output is written
/// only when the rank's own part of input 0 is no longer needed, so the two may be the same memory.
/// @cost   (p−1)α + (p−1)·nβ + (p−1)·nγ   (n in bytes per rank, with one leaf on each; if the parts differ, an upper
///         bound with n of the longest)
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_reduce_scatter(Rank me, const CollectiveDescription& d);

/// Returns its order of addition: the sum of part c starts on rank c+1, goes around the ring and ends on rank c; each
/// rank adds its leaves one after the other.
/// @param leaves  the leaves of each rank
Expression ring_reduce_scatter_order(Expressions& expressions, std::span<const std::vector<Expression>> leaves,
                                     int part);

/// Binomial-tree reduce into the root's output: in each round every rank that has received all sums it waits for sends
/// its sum to its parent. It uses the broadcast tree in the opposite direction, the smallest subtree first. Only the
/// root's output is written; the other ranks have none. An inner rank of the tree adds in `count` elements of scratch.
/// @cost   ⌈log₂p⌉(α + nβ + nγ)   (one leaf on each rank)
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_reduce(Rank me, const CollectiveDescription& d);

/// Returns its order of addition, the same for all elements. It needs a commutative operator, because the ranks are
/// labeled (rank − root) mod p: a label adds to its contribution the sums of label+1, label+2, label+4, … below it. For
/// p = 5 and root 0 the order is ((0+1)+(2+3))+4, for root 2 it is ((2+3)+(4+0))+1.
/// @param contributions  one for each rank
Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root);

/// Binomial-tree gather into the root's output, which has one part for each rank, along the broadcast tree in the
/// opposite direction, the smallest subtree first. A message carries the parts of a whole subtree, at most p/2. Inner
/// ranks of the tree hold these parts side by side in scratch: at most p parts on the root and p/2 elsewhere.
/// @cost   ⌈log₂p⌉α + (p−1)nβ   (n in bytes of a part)
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_gather(Rank me, const CollectiveDescription& d);
/// Scatter from the root's input, which is not written, along the same tree downwards, the largest subtree first.
/// @cost  as binomial_gather
Plan binomial_scatter(Rank me, const CollectiveDescription& d);

/// Pairwise exchange from the input (`ranks` parts of `count` elements, not written) to the output (the same number):
/// in round k each rank sends to the rank k above and receives from the rank k below. No round waits for the previous
/// one, and an executor may have all in flight together; their order only prevents that two ranks send to the same rank
/// at a time. Input and output must not overlap.
/// @cost   (p−1)(α + nβ)   (n in bytes of a part)
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan pairwise_all_to_all(Rank me, const CollectiveDescription& d);
/// The same exchange with parts of different lengths. A message without elements is sent and received, so that both
/// ranks detect different counts; a count of −1 means that there is no message.
Plan pairwise_all_to_all_v(Rank me, const CollectiveDescription& d);

/// Chain scan, inclusive or exclusive: each rank receives the sum over the ranks before it from the previous rank, adds
/// its input to it, and passes it on. Blocks follow each other along the chain. The sums are added in the order of
/// ranks, so their bits do not depend on the number of ranks behind. In an exclusive scan the output of rank 0 is the
/// operator's neutral element, and ranks between the first and the last have `count` elements of scratch.
/// @cost   (p−1)α + (p−1)·nβ + (p−1)·nγ; exclusive: the last rank adds nothing
Plan chain_scan(Rank me, const CollectiveDescription& d);

/// Dissemination barrier: in round k each rank signals the rank 2ᵏ above it. After ⌈log₂p⌉ rounds each rank has heard
/// from all others, directly or indirectly. The messages are signals: they have no elements.
/// @cost   ⌈log₂p⌉·α
/// @source Hensgen, Finkel & Manber, Int. J. Parallel Programming 17(1), 1988
Plan dissemination_barrier(Rank me, const CollectiveDescription& d);

// The plans of all operations.

/// Returns whether the operation can use shared memory.
inline bool may_share_memory(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || row_of(kind).shared_plan != nullptr;
}

/// Returns whether the operation uses shared memory. Only all-reduces are hierarchical; other operations use messages
/// with these algorithms.
inline bool is_shared(CollectiveKind kind, Algorithm algorithm) {
  if (kind == CollectiveKind::all_reduce) return uses_shared_memory(algorithm);
  return algorithm == Algorithm::shared_memory && may_share_memory(kind);
}

/// Returns the plan of one block of `description.count` elements: contributions, then the exchange.
/// @param algorithm  for all_reduce; for other operations only whether it uses shared memory
/// @throws std::bad_alloc only
Plan make_plan(Rank me, const CollectiveDescription& description, Algorithm algorithm);

/// Returns the order in which `algorithm` claims to add `element` of a block of `count` elements, by the function
/// beside the algorithm.
/// @param contributions  one for each rank
/// @param shape            as in CollectiveDescription
/// @param ranks_per_cache  as in CollectiveDescription
Expression all_reduce_order(Algorithm algorithm, Expressions& expressions, std::span<const Expression> contributions,
                            Count count, std::int64_t element, const ClusterShape& shape = {}, int ranks_per_cache = 0);

}  // namespace lockstep::collectives
