// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "collectives/algorithms/by_messages.hpp"
#include "collectives/algorithms/groups.hpp"

namespace lockstep::collectives {

namespace {

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

}  // namespace

Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count, int radix) {
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
  if (!sizes.empty()) plan.scratch({(sizes.front() - 1) * count.value});
  int distance = 1;
  for (const int size : sizes) {
    exchange(plan, fold, {fold.participant(me.value), distance, size}, whole);
    distance *= size;
  }

  if (fold.takes_over(me.value)) plan.send(me.value - 1, whole);
  return plan.take();
}

Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

}  // namespace lockstep::collectives
