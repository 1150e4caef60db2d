// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/schedule_cache.hpp"

#include "comm/collective_parts.hpp"

namespace lockstep::backends {
namespace {

std::vector<std::int64_t> numbers(std::span<const Count> counts) {
  std::vector<std::int64_t> result;
  for (const Count count : counts) result.push_back(count.value);
  return result;
}

/// Returns the longest of the parts if they differ, else `part`.
Count longest(Count part, std::span<const Count> parts, std::span<const Count> received) {
  if (!parts.empty()) part = {0};
  for (const auto& counts : {parts, received})
    for (const Count count : counts) part = std::max(part, count);
  return part;
}

}  // namespace

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

const std::shared_ptr<const CompiledSchedule>& ScheduleCache::find_or_make(const Collective& collective,
                                                                           collectives::Reach reach) {
  const Key wanted = key(collective, reach);
  if (has_part_counts(wanted.kind)) return find_or_make_of_parts({wanted, collective.parts, collective.received});
  if (last_ != schedules_.end() && last_->first == wanted) return last_->second;
  last_ = schedules_.find(wanted);
  if (last_ == schedules_.end() && wanted.leaves.ranks() != 0) {
    std::erase_if(schedules_, [&](const auto& entry) {
      return entry.first.leaves.ranks() != 0 && entry.first.leaves != wanted.leaves;
    });
  }
  if (last_ == schedules_.end())
    last_ = schedules_.emplace(wanted, std::make_shared<const CompiledSchedule>(make(wanted))).first;
  return last_->second;
}

const std::shared_ptr<const CompiledSchedule>& ScheduleCache::find_or_make_of_parts(const PartsView& wanted) {
  const auto found = schedules_of_parts_.find(wanted);
  if (found != schedules_of_parts_.end()) return found->second;
  if (schedules_of_parts_.size() >= most_of_parts) schedules_of_parts_.clear();
  auto made = std::make_shared<const CompiledSchedule>(make(wanted.call, wanted.parts, wanted.received));
  return schedules_of_parts_.emplace(PartsKey(wanted), std::move(made)).first->second;
}

ScheduleCache::Key ScheduleCache::key(const Collective& collective, collectives::Reach reach) const {
  const Count part = part_of(collective, shape_.ranks());
  return {.kind = collective.kind,
          .count = part.value,
          .root = collective.root.value,
          .element_bytes = size_of(collective.out.dtype),
          .in_place = part > 0 && is_in_place(collective, part),
          .reach = reach,
          .leaves = collective.leaves.shares};
}

bool ScheduleCache::is_in_place(const Collective& c, Count part) const {
  const auto own = [&](const ConstBuffer& whole) { return slice(whole, {part.value * me_.value}, part).data; };
  switch (c.kind) {
    case CollectiveKind::all_gather: return own(c.out) == c.in.data;
    case CollectiveKind::all_gather_v: return slice(c.out, offset_of_part(c.parts, me_), {0}).data == c.in.data;
    case CollectiveKind::gather: return me_ == c.root && own(c.out) == c.in.data;
    case CollectiveKind::scatter: return me_ == c.root && own(c.in) == c.out.data;
    default: return c.out.data == c.in.data;
  }
}

CompiledSchedule ScheduleCache::make(const Key& key, std::span<const Count> parts,
                                     std::span<const Count> received) const {
  // In an all_to_all_v no rank knows what the others send, so all ranks choose as for a large operation.
  constexpr Bytes much{std::int64_t{1} << 40};
  const bool knows_own_only = key.kind == CollectiveKind::all_to_all_v;
  const Bytes bytes = knows_own_only ? much : Bytes{key.count * key.element_bytes};
  collectives::Choice choice = choose(selection_, key.kind, bytes).choice;
  int inputs = 1;
  if (key.leaves.total() > 0) {
    choice.algorithm = shares_ ? collectives::Algorithm::hierarchical_tree_order : collectives::Algorithm::tree_order;
    inputs = count_tree_nodes(key.leaves.total(), key.leaves.of(me_.value, shape_.ranks()));
  }
  const Count segment{std::max<std::int64_t>(1, choice.segment.value / key.element_bytes)};
  const Count staging{std::max<std::int64_t>(1, staging_.value / key.element_bytes)};
  const collectives::CollectiveDescription description{.kind = key.kind,
                                                       .ranks = shape_.ranks(),
                                                       .count = longest({key.count}, parts, received),
                                                       .root = {key.root},
                                                       .own = {.leaves = inputs, .in_place = key.in_place},
                                                       .radix = choice.radix,
                                                       .shape = shape_,
                                                       .reach = key.reach,
                                                       .ranks_per_cache = selection_.ranks_per_cache,
                                                       .parts = numbers(parts),
                                                       .received = numbers(received),
                                                       .leaves = key.leaves};
  return {collectives::algorithm_name(key.kind, choice.algorithm),
          collectives::make_schedule(me_, description, choice.algorithm, segment, staging), choice.blocks_in_flight};
}

}  // namespace lockstep::backends
