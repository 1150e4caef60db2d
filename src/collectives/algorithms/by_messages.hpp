// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "collectives/plan/expression.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/plan/plan_builder.hpp"
#include "lockstep/base/cluster_shape.hpp"

/// The algorithms that need messages only. Each is a function from rank to plan; those that add have a second one that
/// returns the order of addition.
namespace lockstep::collectives {

/// Ring all-reduce in the output: reduce-scatter around the ring, then all-gather. It is best for large buffers: no
/// rank sends more than 2(p−1)/p of the buffer, and only to its neighbor.
/// @param count  elements; need not divide by `ranks`
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution
/// @cost   2(p−1)α + 2(p−1)/p·nβ + (p−1)/p·nγ   (n in bytes)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009
Plan ring_all_reduce(Rank me, int ranks, Count count);

/// Returns its order of addition: the sum of chunk c starts on rank c+1, goes around the ring and ends on rank c.
/// @param contributions  one for each rank
Expression ring_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                 std::int64_t element);

/// Ring all-gather in the output: each part with elements goes once around the ring.
/// @pre    0 ≤ me < ranks; the output holds the rank's own part in its place
/// @cost   (p−1)α + (p−1)·nβ   (n in bytes per rank; if the parts differ, an upper bound with n of the longest)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_all_gather(Rank me, const Parts& parts);
inline Plan ring_all_gather(Rank me, int ranks, Count count) { return ring_all_gather(me, Parts::equal(ranks, count)); }

/// Ring reduce-scatter from the input (all parts, not written) to the output (the rank's own part). Partial sums use up
/// to twice the longest part of scratch. The output is written only when the rank's own part of input 0 is no longer
/// needed, so the two may be the same memory.
/// @param own    the rank's contribution; each of its leaves is an input with all parts
/// @pre    0 ≤ me < ranks
/// @cost   (p−1)α + (p−1)·nβ + (p−1)·nγ   (n in bytes per rank, with one leaf on each; if the parts differ, an upper
///         bound with n of the longest)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Chan, Heimlich, Purkayastha & van de Geijn, Concurrency Computat. Pract. Exper. 19(13), 2007
Plan ring_reduce_scatter(Rank me, const Parts& parts, Contribution own = {});
inline Plan ring_reduce_scatter(Rank me, int ranks, Count count, Contribution own = {}) {
  return ring_reduce_scatter(me, Parts::equal(ranks, count), own);
}

/// Returns its order of addition: the sum of part c starts on rank c+1, goes around the ring and ends on rank c; each
/// rank adds its leaves one after the other.
/// @param leaves  the leaves of each rank
Expression ring_reduce_scatter_order(Expressions& expressions, std::span<const std::vector<Expression>> leaves,
                                     int part);

/// Recursive doubling in the output: partners at distance 1, 2, 4, … exchange all they have. It has the fewest rounds
/// and is therefore best for small buffers; ranks above a power of two are folded into their neighbors. With a radix
/// above 2 it is recursive multiplying: groups of up to `radix` ranks exchange in one round what would take log₂ of
/// that many rounds, which pays off if several messages are in flight within one latency. The sums are bitwise equal.
/// It needs (radix−1)·count elements of scratch.
/// @param radix  the largest group; rounded down to a power of two
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   log₂q·(α + nβ + nγ), q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With radix r about
///         log_r q·(α + (r−1)(nβ + nγ)) if a port can hold r−1 messages at a time.
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005; radix: Ruefenacht, Bull &
///         Booth, Parallel Computing 69, 2017
Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);

/// Returns its order of addition, the same for all elements: with r = p − q extra ranks, ranks 2i and 2i+1 (i < r)
/// first form a pair; then the q pairs and single ranks are added in a balanced tree: ((0+1)+2)+(3+4) for p = 5.
/// @param contributions  one for each rank
Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count count, std::int64_t element);

/// Recursive halving, then recursive doubling, in the output: partners at distance 1, 2, 4, … exchange halves of what
/// they still hold, and then return the sums in the opposite order. The large halves go to near ranks. Among the
/// all-reduces that move no more bytes than a ring it needs the fewest messages. Ranks above a power of two are folded
/// into their neighbors. With a radix above 2, groups of up to `radix` ranks divide what they hold into as many parts
/// in one round: this moves the same bytes in fewer rounds of more messages, and gives bitwise equal sums. It then
/// needs up to `count` elements of scratch.
/// @param count  elements; need not be divisible
/// @param radix  the largest group; rounded down to a power of two
/// @pre    0 ≤ me < ranks; the output holds the rank's contribution; radix ≥ 2
/// @cost   2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ, q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With
///         radix r, log_r replaces log₂ if a port can hold r−1 messages at a time.
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; radix: Kolmakov & Zhang, A
///         Generalization of the Allreduce Operation, arXiv:2004.09362, 2020
Plan halving_doubling_all_reduce(Rank me, int ranks, Count count, int radix = 2);

/// Returns its order of addition, the same for all elements: see `recursive_doubling_all_reduce_order`.
Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count count, std::int64_t element);

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

/// Binomial-tree broadcast of the root's output: in each round every rank that has the data sends them to a rank that
/// does not, the largest subtree first.
/// @param count  elements
/// @pre    0 ≤ me, root < ranks; the root's output holds the data
/// @cost   ⌈log₂p⌉(α + nβ)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Johnsson & Ho, IEEE Trans. Computers 38(9), 1989
Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root);

/// Binomial-tree reduce into the root's output: in each round every rank that has received all sums it waits for sends
/// its sum to its parent. It uses the broadcast tree in the opposite direction, the smallest subtree first. Only the
/// root's output is written; the other ranks have none. An inner rank of the tree adds in `count` elements of scratch.
/// @param count  elements
/// @param own    the rank's contribution; in_place is used at the root only
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉(α + nβ + nγ)   (one leaf on each rank)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_reduce(Rank me, int ranks, Count count, Rank root, Contribution own = {});

/// Returns its order of addition, the same for all elements. It needs a commutative operator, because the ranks are
/// labeled (rank − root) mod p: a label adds to its contribution the sums of label+1, label+2, label+4, … below it. For
/// p = 5 and root 0 the order is ((0+1)+(2+3))+4, for root 2 it is ((2+3)+(4+0))+1.
/// @param contributions  one for each rank
Expression binomial_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Rank root);

/// Binomial-tree gather into the root's output, which has one part for each rank, along the broadcast tree in the
/// opposite direction, the smallest subtree first. A message carries the parts of a whole subtree, at most p/2. Inner
/// ranks of the tree hold these parts side by side in scratch: at most p parts on the root and p/2 elsewhere.
/// @param count     elements of each part
/// @param in_place  at the root: its own part is already in its output
/// @pre    0 ≤ me, root < ranks
/// @cost   ⌈log₂p⌉α + (p−1)nβ   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan binomial_gather(Rank me, int ranks, Count count, Rank root, bool in_place);

/// Scatter from the root's input, which is not written, along the same tree downwards, the largest subtree first.
/// @param in_place  at the root: its output is its part of its input
/// @cost  as binomial_gather
Plan binomial_scatter(Rank me, int ranks, Count count, Rank root, bool in_place);

/// Pairwise exchange from the input (`ranks` parts of `count` elements, not written) to the output (the same number):
/// in round k each rank sends to the rank k above and receives from the rank k below. No round waits for the previous
/// one, and an executor may have all in flight together; their order only prevents that two ranks send to the same rank
/// at a time. Input and output must not overlap.
/// @param count  elements of each part
/// @pre    0 ≤ me < ranks
/// @cost   (p−1)(α + nβ)   (n in bytes of a part)
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Plan pairwise_all_to_all(Rank me, int ranks, Count count);

/// The same exchange with parts of different lengths. A message without elements is sent and received, so that both
/// ranks detect different counts; a count of −1 means that there is no message.
/// @param sent      parts of the input, one for each rank to send to
/// @param received  parts of the output, one for each rank to receive from; the stride is the same
Plan pairwise_all_to_all_v(Rank me, const Parts& sent, const Parts& received);

/// Dissemination barrier: in round k each rank signals the rank 2ᵏ above it. After ⌈log₂p⌉ rounds each rank has heard
/// from all others, directly or indirectly. The messages are signals: they have no elements.
/// @pre    0 ≤ me < ranks
/// @cost   ⌈log₂p⌉·α
/// @throws std::bad_alloc only; nothing is communicated here
/// @source Hensgen, Finkel & Manber, Int. J. Parallel Programming 17(1), 1988
Plan dissemination_barrier(Rank me, int ranks);

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
