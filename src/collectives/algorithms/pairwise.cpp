// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/by_messages.hpp"
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
  // The copy is the last step, so that it overlaps with the messages.
  plan.copy(part(Memory::output, me.value), part(Memory::input, me.value));
  return plan.take();
}

Plan pairwise_all_to_all_v(Rank me, const Parts& sent, const Parts& received) {
  const int ranks = sent.ranks();
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

Plan dissemination_barrier(Rank me, int ranks) {
  const Range nothing{Memory::output, 0, 0};
  Plan plan;
  for (int distance = 1; distance < ranks; distance *= 2) {
    plan.steps.emplace_back(Send{wrap(me.value + distance, ranks), nothing});
    plan.steps.emplace_back(Receive{wrap(me.value - distance, ranks), nothing});
  }
  return plan;
}

}  // namespace lockstep::collectives
