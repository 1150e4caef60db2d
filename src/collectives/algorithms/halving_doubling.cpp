// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "collectives/algorithms/by_messages.hpp"
#include "collectives/algorithms/groups.hpp"

namespace lockstep::collectives {
namespace {

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
    if (group.size == 2) plan.receive_reduce(rank, round.kept());
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

Plan halving_doubling_all_reduce(Rank me, int ranks, Count count, int radix) {
  const Fold fold(ranks);
  const Range whole{Memory::output, 0, count.value};
  PlanBuilder plan;
  if (fold.hands_over(me.value)) {
    plan.send(me.value + 1, whole);
    plan.receive(me.value + 1, whole);
    return plan.take();
  }
  if (fold.takes_over(me.value)) plan.receive_reduce(me.value - 1, whole);

  const std::vector<int> sizes = radices(fold.participants(), radix);
  std::vector<Round> rounds = rounds_of(fold.participant(me.value), sizes, whole);
  if (!sizes.empty() && sizes.front() > 2) plan.scratch({(sizes.front() - 1) * rounds.front().kept().count});
  for (const Round& round : rounds) reduce_scatter(plan, fold, round);
  for (; !rounds.empty(); rounds.pop_back()) all_gather(plan, fold, rounds.back());

  if (fold.takes_over(me.value)) plan.send(me.value - 1, whole);
  return plan.take();
}

Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

}  // namespace lockstep::collectives
