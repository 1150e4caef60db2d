// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/by_messages.hpp"
#include "collectives/plan/partition.hpp"

namespace lockstep::collectives {

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
