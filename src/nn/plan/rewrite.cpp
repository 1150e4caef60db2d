// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {
namespace {

using Kind = Operand::Kind;

bool is(const Operand& operand, int buffer) { return operand.kind == Kind::activation && operand.index == buffer; }

std::size_t count_uses(const PlannedItem& item, int buffer) {
  std::size_t uses = 0;
  for_each_operand(item, [&](const Operand& operand) { uses += is(operand, buffer) ? 1 : 0; });
  return uses;
}

/// Returns the first item from `begin` on that uses the buffer, or the list's end.
std::size_t find_use(const StepPlan& plan, std::size_t begin, int buffer) {
  const auto first = plan.items.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto found =
      std::find_if(first, plan.items.end(), [&](const PlannedItem& item) { return count_uses(item, buffer) > 0; });
  return static_cast<std::size_t>(found - plan.items.begin());
}

void replace(StepPlan& plan, std::size_t begin, int buffer, int by) {
  for (std::size_t i = begin; i < plan.items.size(); ++i) {
    for_each_operand(plan.items[i], [&](Operand& operand) {
      if (is(operand, buffer)) operand.index = by;
    });
  }
}

/// Recomputes lifetimes: a buffer lives from the first to the last item that uses it.
StepPlan with_lifetimes(StepPlan plan) {
  std::vector<bool> seen(plan.buffers.size());
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    for_each_operand(plan.items[i], [&](const Operand& operand) {
      if (operand.kind != Kind::activation) return;
      Lifetime& life = plan.buffers[static_cast<std::size_t>(operand.index)];
      life.last = static_cast<int>(i);
      if (!seen[static_cast<std::size_t>(operand.index)]) life.first = life.last;
      seen[static_cast<std::size_t>(operand.index)] = true;
    });
  }
  for (std::size_t b = 0; b < seen.size(); ++b)
    if (!seen[b]) plan.buffers[b] = {};
  hold_until_joined(plan);
  return plan;
}

bool is_backward(const PlannedItem& item) {
  const auto* run = std::get_if<PlannedRun>(&item);
  return run != nullptr && (run->pass == ops::Pass::recompute || run->pass == ops::Pass::measure_backward ||
                            run->pass == ops::Pass::backward);
}

/// Returns the first item of the backward pass that reads the buffer which item `i` writes, if its memory can be used
/// in between; otherwise the list's end.
std::size_t gap_end(const StepPlan& plan, std::size_t i, int buffer) {
  std::size_t last = i;
  for (;;) {
    const std::size_t use = find_use(plan, last + 1, buffer);
    if (use == plan.items.size()) return use;
    if (is_backward(plan.items[use])) return use > last + 1 ? use : plan.items.size();
    last = use;
  }
}

/// Returns the run if the item sums two gradients, otherwise null.
const PlannedRun* sum_of_gradients(const PlannedItem& item) {
  const auto* run = std::get_if<PlannedRun>(&item);
  const bool sums = run != nullptr && run->node < 0 && run->inputs.size() == 2 && run->output.kind == Kind::activation;
  return sums && run->inputs[0].index != run->inputs[1].index ? run : nullptr;
}

/// Returns whether all readers of the sum that item `i` computes can take its two terms, which have no other readers.
bool can_fuse(const StepPlan& plan, std::size_t i, const PlannedRun& sum) {
  for (const Operand& term : sum.inputs)
    if (find_use(plan, i + 1, term.index) != plan.items.size()) return false;
  for (std::size_t use = i;;) {
    use = find_use(plan, use + 1, sum.output.index);
    if (use == plan.items.size()) return true;
    const auto* run = std::get_if<PlannedRun>(&plan.items[use]);
    if (run == nullptr || !is(run->output_gradient, sum.output.index)) return false;
    if (!run->kernel->traits().takes_two_gradients || count_uses(*run, sum.output.index) != 1) return false;
  }
}

/// Returns the input's gradient that item `i` can write over the output's gradient, or nothing.
Operand to_be_shared(const StepPlan& plan, std::size_t i) {
  const auto* run = std::get_if<PlannedRun>(&plan.items[i]);
  if (run == nullptr || run->pass != ops::Pass::backward || run->kernel->traits().in_place_gradient < 0) return {};
  const Operand gradient = run->input_gradients[static_cast<std::size_t>(run->kernel->traits().in_place_gradient)];
  const Operand& from = run->output_gradient;
  if (gradient.kind != Kind::activation || from.kind != Kind::activation) return {};
  const std::vector<Lifetime>& buffers = plan.buffers;
  if (buffers[static_cast<std::size_t>(gradient.index)].bytes != buffers[static_cast<std::size_t>(from.index)].bytes)
    return {};
  if (find_use(plan, i + 1, from.index) != plan.items.size()) return {};
  for (std::size_t use = find_use(plan, 0, gradient.index); use < i; use = find_use(plan, use + 1, gradient.index)) {
    const auto* before = std::get_if<PlannedRun>(&plan.items[use]);
    if (before == nullptr || before->pass != ops::Pass::measure_backward || before->kernel != run->kernel) return {};
  }
  return gradient;
}

}  // namespace

void hold_until_joined(StepPlan& plan) {
  for (Lifetime& buffer : plan.buffers) {
    if (buffer.lane != all_lanes) continue;
    const auto last = plan.items.begin() + buffer.last;
    const auto join = std::find_if(last, plan.items.end(),
                                   [](const PlannedItem& item) { return std::holds_alternative<Join>(item); });
    buffer.last = static_cast<int>(join - plan.items.begin());
  }
}

StepPlan recompute(StepPlan plan) {
  // The loop starts from the end, so that a recomputation counts as a reader of its inputs.
  for (std::size_t i = plan.items.size(); i-- > 0;) {
    const auto* run = std::get_if<PlannedRun>(&plan.items[i]);
    if (run == nullptr || run->pass != ops::Pass::forward || !run->kernel->traits().recomputable) continue;
    const int buffer = run->output.index;
    const std::size_t reader = run->output.kind == Kind::activation ? gap_end(plan, i, buffer) : plan.items.size();
    if (reader == plan.items.size()) continue;
    PlannedRun again = *run;
    again.pass = ops::Pass::recompute;
    again.label = "recompute" + again.label.substr(std::min(again.label.find(' '), again.label.size()));
    again.state.clear();
    again.part = again.parts = {};
    again.parts_count = 0;
    again.output.index = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back(plan.buffers[static_cast<std::size_t>(buffer)]);
    replace(plan, reader, buffer, again.output.index);
    plan.items.insert(plan.items.begin() + static_cast<std::ptrdiff_t>(reader), std::move(again));
  }
  return with_lifetimes(std::move(plan));
}

StepPlan fuse_sums(StepPlan plan) {
  for (std::size_t i = 0; i < plan.items.size();) {
    const PlannedRun* sum = sum_of_gradients(plan.items[i]);
    if (sum == nullptr || !can_fuse(plan, i, *sum)) {
      ++i;
      continue;
    }
    for (std::size_t use = find_use(plan, i + 1, sum->output.index); use < plan.items.size();
         use = find_use(plan, use + 1, sum->output.index)) {
      auto& run = std::get<PlannedRun>(plan.items[use]);
      run.output_gradient = sum->inputs[0];
      run.second_output_gradient = sum->inputs[1];
    }
    plan.items.erase(plan.items.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return with_lifetimes(std::move(plan));
}

StepPlan share_gradients(StepPlan plan) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const Operand gradient = to_be_shared(plan, i);
    if (gradient.kind == Kind::none) continue;
    replace(plan, 0, gradient.index, std::get<PlannedRun>(plan.items[i]).output_gradient.index);
  }
  return with_lifetimes(std::move(plan));
}

}  // namespace lockstep::nn
