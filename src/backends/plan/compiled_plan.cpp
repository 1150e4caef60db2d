#include "backends/plan/compiled_plan.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::backends {

using collectives::Dependencies;
using collectives::ReceiveReduce;

CompiledPlan::CompiledPlan(collectives::Plan plan) : plan_(std::move(plan)) {
  const std::size_t steps = plan_.steps.size();
  landing_slot_.resize(steps, -1);
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
      landing_slot_[step] = landings++ % collectives::landing_buffers;
      landing_.value = std::max(landing_.value, reduce->to.count);
    }
  }
}

}  // namespace lockstep::backends
