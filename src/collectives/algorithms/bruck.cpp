// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// A round of the reduce-scatter: of `held` partial sums, a rank keeps the first `skip` and sends the others to the
/// rank `skip` above it. The round of the all-gather moves as many sums in the opposite direction.
struct SkipRound {
  int held;
  int skip;
  [[nodiscard]] int moved() const { return held - skip; }
};

/// Halves the number of partial sums until one is left, in ⌈log₂p⌉ rounds for any p.
std::vector<SkipRound> skip_rounds(int ranks) {
  std::vector<SkipRound> rounds;
  for (int held = ranks; held > 1; held = rounds.back().skip) rounds.push_back({held, (held + 1) / 2});
  return rounds;
}

/// A rank's copy of the block in scratch. It begins with the rank's own chunk and continues with those of the ranks
/// above it, around the ring, so that every message is one range.
class RotatedBlock {
 public:
  RotatedBlock(Rank me, int ranks, Count count) : me_(me.value), ranks_(ranks), count_(count) {}

  /// Returns `chunks` chunks of scratch from that of the rank `distance` above on.
  [[nodiscard]] Range chunks(int distance, int chunks) const {
    const std::int64_t begin = position(distance);
    return {Memory::scratch, begin, position(distance + chunks) - begin};
  }
  /// Calls copy(output, scratch) for the two parts that are contiguous in both.
  template <typename Copy>
  void for_each_part(const Copy& copy) const {
    const std::int64_t own = chunk(count_, ranks_, me_).offset;
    copy(Range{Memory::output, own, count_.value - own}, Range{Memory::scratch, 0, count_.value - own});
    copy(Range{Memory::output, 0, own}, Range{Memory::scratch, count_.value - own, own});
  }

 private:
  /// Returns the number of elements before the chunk of the rank `distance` above.
  [[nodiscard]] std::int64_t position(int distance) const {
    if (distance == ranks_) return count_.value;
    const std::int64_t ahead =
        chunk(count_, ranks_, wrap(me_ + distance, ranks_)).offset - chunk(count_, ranks_, me_).offset;
    return me_ + distance < ranks_ ? ahead : ahead + count_.value;
  }

  int me_;
  int ranks_;
  Count count_;
};

/// Returns the partial sum that `rank` holds of the chunk of the rank `distance` above it after `rounds` rounds.
Expression partial_sum(Expressions& expressions, std::span<const Expression> contributions,
                       std::span<const SkipRound> rounds, int rank, int distance) {
  if (rounds.empty()) return contributions[static_cast<std::size_t>(rank)];
  const auto before = rounds.first(rounds.size() - 1);
  const auto [held, skip] = rounds.back();
  const Expression own = partial_sum(expressions, contributions, before, rank, distance);
  if (distance + skip >= held) return own;
  const int sender = wrap(rank - skip, static_cast<int>(contributions.size()));
  return expressions.combine(partial_sum(expressions, contributions, before, sender, distance + skip), own);
}

}  // namespace

/// Reduce-scatter and all-gather over a circulant graph, for any number of ranks: in each round a rank sends half of
/// its partial sums to the rank a skip above it, and the skips halve. Then the sums return on the same paths. It moves
/// no more bytes than a ring in as few rounds as halving-doubling, and does not fold if p is no power of two. It copies
/// the block into `count` elements of scratch and back, so that no message wraps around the end of the block.
/// @cost   2⌈log₂p⌉·α + 2(p−1)/p·nβ + (p−1)/p·nγ
/// @source Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234, 2024; all-gather:
///         Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE Trans. Parallel Distrib. Syst. 8(11), 1997
Plan bruck_all_reduce(Rank me, int ranks, Count count, int /*radix*/) {
  std::vector<SkipRound> rounds = skip_rounds(ranks);
  const RotatedBlock block(me, ranks, count);
  PlanBuilder plan;
  if (rounds.empty()) return plan.take();
  plan.scratch(count);
  block.for_each_part([&](const Range& output, const Range& scratch) { plan.copy(scratch, output); });
  for (const SkipRound& round : rounds) {
    plan.send(wrap(me.value + round.skip, ranks), block.chunks(round.skip, round.moved()));
    plan.receive_reduce(wrap(me.value - round.skip, ranks), block.chunks(0, round.moved()));
  }
  for (; !rounds.empty(); rounds.pop_back()) {
    const SkipRound& round = rounds.back();
    plan.send(wrap(me.value - round.skip, ranks), block.chunks(0, round.moved()));
    plan.receive(wrap(me.value + round.skip, ranks), block.chunks(round.skip, round.moved()));
  }
  block.for_each_part([&](const Range& output, const Range& scratch) { plan.copy(output, scratch); });
  return plan.take();
}

/// Chunk c ends on rank c. Each rank adds what it receives in front of its own partial sum: ((2+0)+(1+3)) for chunk 3
/// of 4 ranks.
Expression bruck_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions, Count count,
                                  std::int64_t element) {
  const int ranks = static_cast<int>(contributions.size());
  return partial_sum(expressions, contributions, skip_rounds(ranks), chunk_of(count, ranks, element), 0);
}

/// The cost is exact if all links are alike and p divides the elements. Up to `skip` ranks of a node send to other
/// nodes at the same time and share its link.
double bruck_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int /*radix*/) {
  double seconds = 0;
  for (const SkipRound& round : skip_rounds(ranks)) {
    Rates rates = links.far;
    rates.beta_seconds_per_byte *= std::min(round.skip, links.sharing);
    const double share = static_cast<double>(round.moved()) / ranks;
    seconds += price(rates, buffer, 2, 2 * share, share);
  }
  return seconds;
}

}  // namespace lockstep::collectives
