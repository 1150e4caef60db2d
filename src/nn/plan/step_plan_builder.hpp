// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {

/// Marks a buffer that all lanes use.
inline constexpr int all_lanes = -1;

/// Holds buffers that all lanes use until the lanes join, because a lane may be at an earlier item than the last user.
inline void hold_until_joined(StepPlan& plan) {
  for (Lifetime& buffer : plan.buffers) {
    if (buffer.lane != all_lanes) continue;
    const auto last = plan.items.begin() + buffer.last;
    const auto join = std::find_if(last, plan.items.end(),
                                   [](const PlannedItem& item) { return std::holds_alternative<Join>(item); });
    buffer.last = static_cast<int>(join - plan.items.begin());
  }
}

/// Appends items to a plan and tracks the lifetimes of the buffers that they use.
class StepPlanBuilder {
 public:
  static constexpr int none = -1;

  /// @param lane  the only lane that uses it, or `all_lanes`
  int new_buffer(Bytes bytes, int lane) {
    step_plan_.buffers.push_back({bytes, now(), now(), lane});
    return static_cast<int>(step_plan_.buffers.size()) - 1;
  }
  /// Notes that the next item uses the buffer. @return an empty operand for `none`
  Operand use(int buffer) {
    if (buffer == none) return {};
    step_plan_.buffers[static_cast<std::size_t>(buffer)].last = now();
    return {Operand::Kind::activation, buffer};
  }

  template <typename Planned>
  void add(Planned item) {
    step_plan_.items.emplace_back(std::in_place_type<Planned>, std::move(item));
  }
  void add(PlannedRun run) {
    touch(run);
    step_plan_.items.emplace_back(std::move(run));
  }

  void add_leaf(std::int64_t first_sample) { step_plan_.first_samples.push_back(first_sample); }
  [[nodiscard]] StepPlan take() {
    hold_until_joined(step_plan_);
    return std::move(step_plan_);
  }

 private:
  [[nodiscard]] int now() const { return static_cast<int>(step_plan_.items.size()); }
  /// Keeps the buffers that a run reads or writes alive until the run.
  void touch(const PlannedRun& run) {
    const auto last = [this](const Operand& operand) {
      if (operand.kind == Operand::Kind::activation) use(operand.index);
    };
    for (const auto* operands : {&run.inputs, &run.parameters, &run.input_gradients, &run.parameter_gradients})
      std::for_each(operands->begin(), operands->end(), last);
    for (const Operand* operand : {&run.output, &run.saved, &run.workspace, &run.output_gradient,
                                   &run.second_output_gradient, &run.part, &run.parts})
      last(*operand);
  }

  StepPlan step_plan_;
};

}  // namespace lockstep::nn
