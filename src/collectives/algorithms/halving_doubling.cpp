// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

/// Folding, which extends algorithms for powers of two to any number of ranks: of the first 2·extras ranks each even
/// rank sends its contribution to its odd neighbor and receives the result from it; the other ranks participate.
class Fold {
 public:
  explicit Fold(int ranks) : participants_(floor_power_of_two(ranks)), extras_(ranks - participants_) {}

  [[nodiscard]] int participants() const { return participants_; }
  /// Returns whether `rank` sends its contribution to `rank` + 1.
  [[nodiscard]] bool hands_over(int rank) const { return rank < 2 * extras_ && rank % 2 == 0; }
  /// Returns whether `rank` also represents `rank` − 1.
  [[nodiscard]] bool takes_over(int rank) const { return rank < 2 * extras_ && rank % 2 == 1; }
  /// @pre !hands_over(rank)
  [[nodiscard]] int participant(int rank) const { return takes_over(rank) ? rank / 2 : rank - extras_; }
  [[nodiscard]] int rank(int participant) const {
    return participant < extras_ ? 2 * participant + 1 : participant + extras_;
  }

 private:
  int participants_;
  int extras_;
};

/// The participants that exchange in one round: those whose numbers differ only in the digit of weight `distance`.
struct Group {
  int self;      ///< a participant
  int distance;  ///< between neighbors in the group
  int size;      ///< a power of two

  [[nodiscard]] int index() const { return self / distance % size; }
  [[nodiscard]] int member(int index_of_member) const { return self + (index_of_member - index()) * distance; }
};

/// Reduces the contributions of the members of a group in a balanced tree: pairs, then pairs of pairs, with the lower
/// members' operand first. Rounds with one partner each add in the same order, so that the bits do not depend on the
/// size of groups.
/// @param pieces  one for each member; pieces[own] is the output's, the others are scratch
/// @param own     index of the piece that receives the sum
void sum_balanced(PlanBuilder& plan, std::span<const Range> pieces, int own) {
  std::vector<Range> level(pieces.begin(), pieces.end());
  auto mine = static_cast<std::size_t>(own);
  for (; level.size() > 1; level.resize(level.size() / 2), mine /= 2) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) {
      // The sum goes into the rank's own piece, which may be the second of the pair.
      const bool into_second = mine == 2 * i + 1;
      const std::size_t to = into_second ? 2 * i + 1 : 2 * i;
      const std::size_t from = 4 * i + 1 - to;
      plan.reduce(level[to], level[from], into_second ? FirstOperand::other : FirstOperand::own);
      level[i] = level[to];
    }
  }
}

/// Returns the plan of a rank that hands over or takes over its neighbor's contribution, with the steps in between,
/// which `exchange` appends for participants.
template <typename Exchange>
Plan folded(const Fold& fold, Rank me, const Range& whole, const Exchange& exchange) {
  PlanBuilder plan;
  if (fold.hands_over(me.value)) {
    plan.send(me.value + 1, whole);
    plan.receive(me.value + 1, whole);
    return plan.take();
  }
  if (fold.takes_over(me.value)) plan.receive_reduce(me.value - 1, whole);
  exchange(plan, fold.participant(me.value));
  if (fold.takes_over(me.value)) plan.send(me.value - 1, whole);
  return plan.take();
}

/// All members of a group send each other all they have, and each member adds it up.
void exchange(PlanBuilder& plan, const Fold& fold, const Group& group, const Range& whole) {
  std::vector<Range> pieces;
  for (int i = 0; i < group.size; ++i) {
    const int slot = i < group.index() ? i : i - 1;
    pieces.push_back(i == group.index() ? whole : Range{Memory::scratch, slot * whole.count, whole.count});
  }
  // In each turn the members form pairs, so that no member waits for a port.
  for (int turn = 1; turn < group.size; ++turn) {
    const int peer = group.index() ^ turn;
    plan.send(fold.rank(group.member(peer)), whole);
    // A receive_reduce into `whole` would have to wait for the send that reads `whole`, on both ranks at once.
    plan.receive(fold.rank(group.member(peer)), pieces[static_cast<std::size_t>(peer)]);
  }
  sum_balanced(plan, pieces, group.index());
}

/// One round: the range that a group holds together, in as many parts as it has members.
struct Round {
  Group group;
  Range held;

  [[nodiscard]] Range part(int index) const {
    const std::int64_t begin = boundary(index);
    return {held.memory, held.offset + begin, boundary(index + 1) - begin};
  }
  [[nodiscard]] Range kept() const { return part(group.index()); }
  /// Returns the number of elements before a part.
  [[nodiscard]] std::int64_t boundary(int index) const {
    return held.count / group.size * index + held.count % group.size * index / group.size;
  }
};

/// Every member receives the contributions to its part from all others and reduces them.
void reduce_scatter(PlanBuilder& plan, const Fold& fold, const Round& round) {
  const Group& group = round.group;
  std::vector<Range> pieces(static_cast<std::size_t>(group.size), round.kept());
  // In each turn the members form pairs, so that no member waits for a port.
  for (int turn = 1; turn < group.size; ++turn) {
    const int peer = group.index() ^ turn;
    const int rank = fold.rank(group.member(peer));
    plan.send(rank, round.part(peer));
    Range& piece = pieces[static_cast<std::size_t>(peer)];
    piece = {Memory::scratch, (turn - 1) * round.kept().count, round.kept().count};
    if (group.size > 2) plan.receive(rank, piece);
    if (group.size == 2)
      plan.receive_reduce(rank, round.kept(), group.index() == 0 ? FirstOperand::own : FirstOperand::other);
  }
  if (group.size > 2) sum_balanced(plan, pieces, group.index());
}

/// Every member sends its part to all others.
void all_gather(PlanBuilder& plan, const Fold& fold, const Round& round) {
  for (int turn = 1; turn < round.group.size; ++turn) {
    const int peer = round.group.index() ^ turn;
    const int rank = fold.rank(round.group.member(peer));
    plan.send(rank, round.kept());
    plan.receive(rank, round.part(peer));
  }
}

std::vector<Round> rounds_of(int self, std::span<const int> sizes, const Range& whole) {
  std::vector<Round> rounds;
  Range held = whole;
  int distance = 1;
  for (const int size : sizes) {
    rounds.push_back({{self, distance, size}, held});
    held = rounds.back().kept();
    distance *= size;
  }
  return rounds;
}

/// Returns the cost of folding: ranks above a power of two send their contribution and receive the result.
double folding(int ranks, Bytes n, const Links& links) {
  return floor_power_of_two(ranks) < ranks ? price(links.folding, n, 2, 2, 1) : 0;
}

/// Returns the cost of a round in which each rank of a group, whose ranks are `distance` apart, sends `share` of the
/// buffer to every other one, the near ones first. Only the last message's time on the wire adds to the cost.
double group_round(const Links& links, Bytes n, int distance, int group, double share, bool adds) {
  const int near = std::clamp(links.near_ranks / distance, 1, group);
  Rates far = links.far;
  far.beta_seconds_per_byte *= std::min(links.sharing, distance * group / 2);
  const Rates& last = near < group ? far : links.near;
  return port_seconds(links.near, n, near - 1, share, adds) + port_seconds(far, n, group - near, share, adds) +
         last.wire_seconds;
}

/// Returns the cost of exchanging the whole buffer in each round, or of halving it in each and doubling it again.
double exchange_seconds(int ranks, Bytes buffer, const Links& links, int radix, bool halves) {
  double seconds = folding(ranks, buffer, links);
  int distance = 1;
  for (const int group : radices(floor_power_of_two(ranks), radix)) {
    const double share = halves ? 1.0 / distance / group : 1;
    seconds += group_round(links, buffer, distance, group, share, true);
    if (halves) seconds += group_round(links, buffer, distance, group, share, false);
    distance *= group;
  }
  return seconds;
}

}  // namespace

/// Recursive doubling in the output: partners at distance 1, 2, 4, … exchange all they have. It has the fewest rounds
/// and is therefore best for small buffers; ranks above a power of two are folded into their neighbors. With a radix
/// above 2 it is recursive multiplying: groups of up to `radix` ranks exchange in one round what would take log₂ of
/// that many rounds, which pays off if several messages are in flight within one latency. The sums are bitwise equal.
/// It needs (radix−1)·count elements of scratch. The order of addition is that of halving-doubling.
/// @param radix  the largest group; rounded down to a power of two
/// @cost   log₂q·(α + nβ + nγ), q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With radix r about
///         log_r q·(α + (r−1)(nβ + nγ)) if a port can hold r−1 messages at a time.
/// @source Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005; radix: Ruefenacht, Bull &
///         Booth, Parallel Computing 69, 2017
Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count, int radix) {
  const Fold fold(ranks);
  const Range whole{Memory::output, 0, count.value};
  return folded(fold, me, whole, [&](PlanBuilder& plan, int participant) {
    const std::vector<int> sizes = radices(fold.participants(), radix);
    if (!sizes.empty()) plan.scratch({(sizes.front() - 1) * count.value});
    int distance = 1;
    for (const int size : sizes) {
      exchange(plan, fold, {participant, distance, size}, whole);
      distance *= size;
    }
  });
}

/// The cost is exact if all links are alike. With a radix above 2 a round of g ranks costs
/// (g − 1)·(α + nβ + nγ) − (g − 2)·wire_seconds, which is exact if additions are free and p is a power of two.
/// Additions may take less, since the first message can be added while others are on the wire.
double recursive_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix) {
  return exchange_seconds(ranks, buffer, links, radix, false);
}

/// Recursive halving, then recursive doubling, in the output: partners at distance 1, 2, 4, … exchange halves of what
/// they still hold, and then return the sums in the opposite order. The large halves go to near ranks. Among the
/// all-reduces that move no more bytes than a ring it needs the fewest messages. Ranks above a power of two are folded
/// into their neighbors. With a radix above 2, groups of up to `radix` ranks divide what they hold into as many parts
/// in one round: this moves the same bytes in fewer rounds of more messages, and gives bitwise equal sums. It then
/// needs up to `count` elements of scratch.
/// @param radix  the largest group; rounded down to a power of two
/// @cost   2·log₂q·α + 2(q−1)/q·nβ + (q−1)/q·nγ, q = the largest power of two ≤ p; 2α + 2nβ + nγ more if q < p. With
///         radix r, log_r replaces log₂ if a port can hold r−1 messages at a time.
/// @source Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; radix: Kolmakov & Zhang, A
///         Generalization of the Allreduce Operation, arXiv:2004.09362, 2020
Plan halving_doubling_all_reduce(Rank me, int ranks, Count count, int radix) {
  const Fold fold(ranks);
  const Range whole{Memory::output, 0, count.value};
  return folded(fold, me, whole, [&](PlanBuilder& plan, int participant) {
    const std::vector<int> sizes = radices(fold.participants(), radix);
    std::vector<Round> rounds = rounds_of(participant, sizes, whole);
    if (!sizes.empty() && sizes.front() > 2) plan.scratch({(sizes.front() - 1) * rounds.front().kept().count});
    for (const Round& round : rounds) reduce_scatter(plan, fold, round);
    for (; !rounds.empty(); rounds.pop_back()) all_gather(plan, fold, rounds.back());
  });
}

/// The same order for all elements: with r = p − q extra ranks, ranks 2i and 2i+1 (i < r) first form a pair; then the q
/// pairs and single ranks are added in a balanced tree: ((0+1)+2)+(3+4) for p = 5.
Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count /*count*/, std::int64_t /*element*/) {
  const Fold fold(static_cast<int>(contributions.size()));
  std::vector<Expression> level;
  for (int i = 0; i < fold.participants(); ++i) {
    const int rank = fold.rank(i);
    const Expression own = contributions[static_cast<std::size_t>(rank)];
    level.push_back(fold.takes_over(rank) ? expressions.combine(contributions[static_cast<std::size_t>(rank) - 1], own)
                                          : own);
  }
  for (; level.size() > 1; level.resize(level.size() / 2))
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = expressions.combine(level[2 * i], level[2 * i + 1]);
  return level.front();
}

/// α and β belong to the link at each round's distance. If all links are alike the cost is exact if q divides the
/// elements; otherwise the value for n rounded up to a multiple is an upper bound. With a radix above 2, g − 1 messages
/// in a round of g ranks replace log₂g rounds, and cost (g − 1)·α minus all but one of their wire_seconds, which
/// overlap. This is exact if additions are free and p is a power of two; for other p up to 64 it is at most a quarter
/// too low and a twentieth too high.
double halving_doubling_all_reduce_seconds(int ranks, Bytes buffer, const Links& links, int radix) {
  return exchange_seconds(ranks, buffer, links, radix, true);
}

}  // namespace lockstep::collectives
