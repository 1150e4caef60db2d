// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <vector>

#include "collectives/algorithms/by_messages.hpp"
#include "collectives/plan/expression.hpp"
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

/// Returns the balanced order: neighbors that fold, then participants in pairs, pairs of pairs, and so on.
Expression balanced_order(Expressions& expressions, std::span<const Expression> contributions) {
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

}  // namespace

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

Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

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

Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

}  // namespace lockstep::collectives
