// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/compiled_plan.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::backends {

using collectives::Dependencies;
using collectives::ReceiveReduce;

CompiledPlan::CompiledPlan(collectives::Plan plan) : plan_(std::move(plan)) {
  const auto any = [this](auto... kinds) {
    return std::any_of(plan_.steps.begin(), plan_.steps.end(), [](const collectives::Step& step) {
      return (std::holds_alternative<decltype(kinds)>(step) || ...);
    });
  };
  shares_memory_ = any(collectives::Publish{}, collectives::Await{});
  is_in_order_ = shares_memory_ && !any(collectives::Send{}, collectives::Receive{}, ReceiveReduce{});
  const std::size_t steps = plan_.steps.size();
  landing_buffer_.resize(steps, -1);
  waits_.resize(steps, 0);
  after_done_.resize(steps);
  after_started_.resize(steps);
  const std::vector<Dependencies> waiting = collectives::dependencies(plan_);
  int landings = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    for (const int earlier : waiting[step].done)
      after_done_[static_cast<std::size_t>(earlier)].push_back(static_cast<int>(step));
    for (const int earlier : waiting[step].started)
      after_started_[static_cast<std::size_t>(earlier)].push_back(static_cast<int>(step));
    waits_[step] = static_cast<int>(waiting[step].done.size() + waiting[step].started.size());
    if (const auto* reduce = std::get_if<ReceiveReduce>(&plan_.steps[step])) {
      landing_buffer_[step] = landings++ % collectives::landing_buffers;
      landing_.value = std::max(landing_.value, reduce->to.count);
    }
  }
}

}  // namespace lockstep::backends
