// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/parts.hpp"

#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {

Plan contribute(Plan exchange, const Contribution& own, const Range& destination) {
  PlanBuilder prologue;
  const auto input = [&](int leaf) { return Range{Memory::input, 0, destination.count, leaf}; };
  if (own.leaves == 0) prologue.fill(destination);
  if (own.leaves > 0 && !own.in_place) prologue.copy(destination, input(0));
  for (int leaf = 1; leaf < own.leaves; ++leaf) prologue.reduce(destination, input(leaf));
  const Plan first = prologue.take();
  exchange.steps.insert(exchange.steps.begin(), first.steps.begin(), first.steps.end());
  return exchange;
}

}  // namespace lockstep::collectives
