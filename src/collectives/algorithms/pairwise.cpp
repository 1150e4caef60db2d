// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {

Plan pairwise_all_to_all(Rank me, const CollectiveDescription& d) {
  const Parts parts = parts_of(d);
  PlanBuilder plan;
  for (int distance = 1; distance < d.ranks; ++distance) {
    const int to = wrap(me.value + distance, d.ranks);
    const int from = wrap(me.value - distance, d.ranks);
    plan.send(to, parts.of(to, Memory::input));
    plan.receive(from, parts.of(from, Memory::output));
  }
  // The copy is the last step, so that it overlaps with the messages.
  plan.copy(parts.of(me.value, Memory::output), parts.of(me.value, Memory::input));
  return plan.take();
}

Plan pairwise_all_to_all_v(Rank me, const CollectiveDescription& d) {
  const int ranks = d.ranks;
  const Parts sent = parts_of(d);
  const Parts received(d.count, d.received);
  Plan plan;
  // A signal is sent only when the signals listed before it have arrived, so the receives of signals follow all sends.
  for (const bool signals : {false, true}) {
    for (int distance = 1; distance < ranks; ++distance) {
      const Range to = received.of(wrap(me.value - distance, ranks), Memory::output);
      if (signals ? to.count == 0 : to.count > 0)
        plan.steps.emplace_back(Receive{wrap(me.value - distance, ranks), to});
    }
    for (int distance = 1; distance < ranks && !signals; ++distance) {
      const Range from = sent.of(wrap(me.value + distance, ranks), Memory::input);
      if (from.count >= 0) plan.steps.emplace_back(Send{wrap(me.value + distance, ranks), from});
    }
  }
  const Range own = received.of(me.value, Memory::output);
  if (own.count > 0) plan.steps.emplace_back(Copy{own, sent.of(me.value, Memory::input)});
  return plan;
}

Plan dissemination_barrier(Rank me, const CollectiveDescription& d) {
  const Range nothing{Memory::output, 0, 0};
  Plan plan;
  for (int distance = 1; distance < d.ranks; distance *= 2) {
    plan.steps.emplace_back(Send{wrap(me.value + distance, d.ranks), nothing});
    plan.steps.emplace_back(Receive{wrap(me.value - distance, d.ranks), nothing});
  }
  return plan;
}

}  // namespace lockstep::collectives
