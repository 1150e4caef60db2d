// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/operations.hpp"

namespace lockstep::collectives {

Plan chain_scan(Rank me, const CollectiveDescription& d) {
  const Range output{Memory::output, 0, d.count.value};
  const Range before{Memory::scratch, 0, d.count.value};
  const bool is_first = me.value == 0;
  const bool is_last = me.value + 1 == d.ranks;
  PlanBuilder plan;
  if (d.kind == CollectiveKind::scan) {
    if (!is_first) plan.receive_reduce(me.value - 1, output);
    if (!is_last) plan.send(me.value + 1, output);
    return contribute(plan.take(), d.own, output);
  }
  if (is_first) {
    if (!is_last) plan.send(me.value + 1, output);
    plan.fill(output);
    return contribute(plan.take(), d.own, output);
  }
  if (is_last) {
    plan.receive(me.value - 1, output);
    return plan.take();
  }
  plan.scratch(d.count);
  plan.receive(me.value - 1, before);
  plan.reduce(output, before, FirstOperand::other);
  plan.send(me.value + 1, output);
  plan.copy(output, before);
  return contribute(plan.take(), d.own, output);
}

}  // namespace lockstep::collectives
