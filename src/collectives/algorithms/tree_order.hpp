// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// All-reduce in the canonical order (`expression.hpp`), the same for every element, by binary blocks: the ranks
/// are divided into blocks of 2^a > 2^b > … ranks. Each block halves recursively within itself, which adds in a full
/// tree. Then the sums of the smallest block go to the next larger block, which adds them to its own and passes the
/// sums on: A + (B + C). The results return on the same paths.
/// @param count  elements; need not be divisible
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution, which is one leaf of the tree even if it is a sum
///         of several
/// @cost   2aα + 2(1−2⁻ᵃ)nβ + (1−2⁻ᵃ)nγ for 2^a ranks; about 2·2^(a−b)α + 2·2⁻ᵇnβ + 2⁻ᵃnγ more for each pair of
///         neighboring blocks of 2^a > 2^b ranks
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner & Träff, More Efficient Reduction Algorithms for Non-Power-of-Two Number of Processors in
///         Message-Passing Parallel Systems, EuroPVM/MPI 2004
Plan tree_order_all_reduce(Rank me, int ranks, Count count);

/// Returns its order of addition, the same for all elements: `canonical_tree_order`.
/// @param contributions  one for each rank
Expression tree_order_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                       std::int64_t element);

/// Returns whether the ranks of each node form a subtree of the canonical tree, so that nodes can reduce independently:
/// all ranks on one node, or nodes of 2^k consecutive ranks each, of which the last may have fewer.
bool keeps_canonical_order(const ClusterShape& shape);

}  // namespace lockstep::collectives
