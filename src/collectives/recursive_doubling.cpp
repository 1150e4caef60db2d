#include "lockstep/collectives/recursive_doubling.hpp"

#include "collectives/fold.hpp"
#include "collectives/plan_builder.hpp"

namespace lockstep::collectives {

Plan recursive_doubling_all_reduce(Rank me, int ranks, Count count) {
  const Fold fold(ranks);
  const Range whole{Memory::output, 0, count.value};
  const Range received{Memory::scratch, 0, count.value};
  PlanBuilder plan;
  if (fold.hands_over(me.value)) {
    plan.send(me.value + 1, whole);
    plan.receive(me.value + 1, whole);
    return plan.take();
  }
  if (fold.takes_over(me.value)) plan.receive_reduce(me.value - 1, whole);

  // Not receive_reduce into `whole`: it would have to await the send that reads `whole`, on both sides at once.
  if (fold.participants() > 1) plan.scratch(count);
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    const int partner = fold.rank(fold.participant(me.value) ^ distance);
    plan.send(partner, whole);
    plan.receive(partner, received);
    plan.reduce(whole, received);
  }

  if (fold.takes_over(me.value)) plan.send(me.value - 1, whole);
  return plan.take();
}

Expression recursive_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                               Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

}  // namespace lockstep::collectives
