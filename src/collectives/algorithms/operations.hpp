// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collectives/algorithms/cost.hpp"
#include "collectives/algorithms/description.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

/// The operations other than all_reduce. Each has one algorithm for messages and one for shared memory (node.hpp).
namespace lockstep::collectives {

/// Returns one rank's plan for a block. @throws std::bad_alloc only; nothing is communicated
using OperationPlan = Plan (*)(Rank me, const CollectiveDescription& d);
/// Returns the cost of one block alone, in buffers, or in parts if each rank has one. It is exact if each rank
/// contributes one leaf.
using OperationCost = Cost (*)(int ranks);

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

/// Dissemination barrier: in round k each rank signals the rank 2ᵏ above it. After ⌈log₂p⌉ rounds each rank has heard
/// from all others, directly or indirectly. The messages are signals: they have no elements.
/// @cost   ⌈log₂p⌉·α
/// @source Hensgen, Finkel & Manber, Int. J. Parallel Programming 17(1), 1988
Plan dissemination_barrier(Rank me, const CollectiveDescription& d);

}  // namespace lockstep::collectives
