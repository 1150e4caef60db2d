// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/sliced.hpp"

#include <utility>

#include "collectives/plan/plan_builder.hpp"
#include "collectives/plan/step.hpp"

namespace lockstep::collectives {

Plan all_reduce(SlicedAllReduce halves) {
  Plan plan = std::move(halves.reduce_scatter);
  plan.steps.insert(plan.steps.end(), halves.all_gather.steps.begin(), halves.all_gather.steps.end());
  return plan;
}

Range sums_of(Count count, bool in_place) { return {in_place ? Memory::output : Memory::scratch, 0, count.value}; }

Plan reduce_then(const SlicedAllReduce& halves, Count count, bool in_place) {
  const std::int64_t kept_apart = in_place ? 0 : count.value;
  const auto to_sums = [&](Range range) {
    if (range.memory == Memory::scratch) range.offset += kept_apart;
    if (range.memory == Memory::output) range.memory = sums_of(count, in_place).memory;
    return range;
  };
  PlanBuilder plan;
  plan.scratch({kept_apart + halves.reduce_scatter.scratch.value});
  for (const Step& step : halves.reduce_scatter.steps)
    plan.append(translated(
        step, [](int rank) { return rank; }, to_sums));
  plan.apply(halves.slice, to_sums(halves.slice));
  for (const Step& step : halves.all_gather.steps) plan.append(step);
  return plan.take();
}

}  // namespace lockstep::collectives
