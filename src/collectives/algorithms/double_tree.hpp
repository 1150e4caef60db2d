// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {

/// Double binary tree in the output: each of two trees reduces one half of the buffer to its root and broadcasts the
/// sum down again. The second tree is the first one mirrored (even p) or rotated by one rank (odd p), so that a rank
/// that has children in one is a leaf of the other (for odd p one rank has children in both): together they use every
/// link in both directions. Logarithmic latency at nearly full bandwidth once many blocks are in flight.
/// @param count  elements; need not divide by 2
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution
/// @cost   at most 4h(α + nβ/2) + h·nγ with h = ⌈log₂p⌉, for one block alone; blocks in flight overlap
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Sanders, Speck & Träff, Parallel Computing 35(12), 2009
Plan double_tree_all_reduce(Rank me, int ranks, Count count);

/// Returns its order of addition, the same for all elements of one half: each rank adds its children's sums to its own
/// contribution, the lower-labeled child first.
/// @param contributions  one for each rank
Expression double_tree_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                        Count count, std::int64_t element);

}  // namespace lockstep::collectives
