// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// A block of 2^k consecutive ranks that reduce in a full tree among themselves.
struct BinaryBlock {
  int first = 0;
  int size = 0;  ///< 0: there is no such block
  /// Returns the rank of this block whose part, after all halvings, contains the part of `member` of a larger block.
  [[nodiscard]] int rank_above(int member) const { return first + member % size; }
};

/// The block that contains `rank`, and its neighbors.
struct BlockPlace {
  BinaryBlock larger;
  BinaryBlock own;
  BinaryBlock smaller;

  BlockPlace(int rank, int ranks) {
    const auto after = [ranks](const BinaryBlock& block) {
      const int first = block.first + block.size;
      return BinaryBlock{first, first < ranks ? floor_power_of_two(ranks - first) : 0};
    };
    for (own = after({}); rank >= own.first + own.size; own = after(own)) larger = own;
    smaller = after(own);
  }
};

/// Returns the range that `member` of a block of `size` ranks keeps after all halvings.
Range share_of(int member, int size, const Range& whole) {
  Range share = whole;
  for (int distance = 1; distance < size; distance *= 2) share = half(share, (member & distance) != 0);
  return share;
}

}  // namespace

/// All-reduce in the canonical order (`expression.hpp`), the same for every element, by binary blocks: the ranks
/// are divided into blocks of 2^a > 2^b > … ranks. Each block halves recursively within itself, which adds in a full
/// tree. Then the sums of the smallest block go to the next larger block, which adds them to its own and passes the
/// sums on: A + (B + C). The results return on the same paths. A rank's contribution is one leaf of the tree even if it
/// is a sum of several.
/// @cost   2aα + 2(1−2⁻ᵃ)nβ + (1−2⁻ᵃ)nγ for 2^a ranks; about 2·2^(a−b)α + 2·2⁻ᵇnβ + 2⁻ᵃnγ more for each pair of
///         neighboring blocks of 2^a > 2^b ranks
/// @source Rabenseifner & Träff, More Efficient Reduction Algorithms for Non-Power-of-Two Number of Processors in
///         Message-Passing Parallel Systems, EuroPVM/MPI 2004
Plan tree_order_all_reduce(Rank me, int ranks, Count count, int /*radix*/) {
  const BlockPlace at(me.value, ranks);
  const int position = me.value - at.own.first;
  const Range whole{Memory::output, 0, count.value};
  PlanBuilder plan;
  std::vector<Range> held{whole};  // after each halving
  for (int distance = 1; distance < at.own.size; distance *= 2) {
    const bool is_upper = (position & distance) != 0;
    const int partner = at.own.first + (position ^ distance);
    plan.send(partner, half(held.back(), !is_upper));
    held.push_back(half(held.back(), is_upper));
    plan.receive_reduce(partner, held.back(), is_upper ? FirstOperand::other : FirstOperand::own);
  }
  const Range share = held.back();
  if (at.smaller.size > 0) plan.receive_reduce(at.smaller.rank_above(position), share, FirstOperand::own);
  for (int member = position; member < at.larger.size; member += at.own.size)
    plan.send(at.larger.first + member, share_of(member, at.larger.size, whole));

  for (int member = position; member < at.larger.size; member += at.own.size)
    plan.receive(at.larger.first + member, share_of(member, at.larger.size, whole));
  if (at.smaller.size > 0) plan.send(at.smaller.rank_above(position), share);
  for (int distance = at.own.size / 2; distance > 0; distance /= 2) {
    const int partner = at.own.first + (position ^ distance);
    plan.send(partner, held.back());
    held.pop_back();
    plan.receive(partner, half(held.back(), (position & distance) == 0));
  }
  return plan.take();
}

Expression tree_order_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                       Count /*count*/, std::int64_t /*element*/) {
  return canonical_tree_order(expressions, contributions);
}

/// The cost is that of halving-doubling for the largest binary block, plus that of each pair of neighboring blocks over
/// far links. It is exact for powers of two that divide the elements. Otherwise it is an estimate: since blocks work
/// concurrently, the cost is between half of it and a tenth more.
double tree_order_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int /*radix*/) {
  double block = floor_power_of_two(ranks);
  double seconds = halving_doubling_all_reduce_seconds(floor_power_of_two(ranks), buffer, links, 2);
  for (int rest = ranks - floor_power_of_two(ranks); rest > 0; rest -= floor_power_of_two(rest)) {
    const double smaller = floor_power_of_two(rest);
    seconds += price(links.far, buffer, 2 * block / smaller, 2 / smaller, 1 / block);
    block = smaller;
  }
  return seconds;
}

bool keeps_canonical_order(const ClusterShape& shape) {
  if (shape.nodes() <= 1) return true;
  const auto& nodes = shape.node_of_rank;
  const auto width = static_cast<int>(shape.ranks_on(nodes.front()).size());
  if (floor_power_of_two(width) != width) return false;
  for (int rank = 0; rank < shape.ranks(); ++rank)
    if (nodes[static_cast<std::size_t>(rank)] != rank / width) return false;
  return true;
}

}  // namespace lockstep::collectives
