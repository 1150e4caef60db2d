#include "lockstep/collectives/binomial.hpp"

#include "collectives/partition.hpp"
#include "collectives/plan_builder.hpp"

namespace lockstep::collectives {

Plan binomial_broadcast(Rank me, int ranks, Count count, Rank root) {
  const Range whole{Memory::output, 0, count.value};
  const int label = wrap(me.value - root.value, ranks);  // the root is 0
  const auto rank_of = [&](int other) { return wrap(other + root.value, ranks); };
  const int lowest_bit = label & -label;

  PlanBuilder plan;
  if (label > 0) plan.receive(rank_of(label - lowest_bit), whole);
  const int subtree = label > 0 ? lowest_bit : 2 * floor_power_of_two(ranks);
  for (int distance = subtree / 2; distance > 0; distance /= 2)
    if (label + distance < ranks) plan.send(rank_of(label + distance), whole);
  return plan.take();
}

}  // namespace lockstep::collectives
