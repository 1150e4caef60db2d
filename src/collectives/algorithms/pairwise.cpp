// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/pairwise.hpp"

#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {

Plan pairwise_all_to_all(Rank me, int ranks, Count count) {
  const auto part = [&](Memory memory, int rank) { return Range{memory, rank * count.value, count.value}; };
  PlanBuilder plan;
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = wrap(me.value + distance, ranks);
    const int from = wrap(me.value - distance, ranks);
    plan.send(to, part(Memory::input, to));
    plan.receive(from, part(Memory::output, from));
  }
  plan.copy(part(Memory::output, me.value), part(Memory::input, me.value));  // last: while messages are on their way
  return plan.take();
}

}  // namespace lockstep::collectives
