// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/schedule_cache.hpp"

#include <algorithm>

namespace lockstep::backends {
const std::shared_ptr<const CompiledSchedule>& ScheduleCache::find_or_make(const Collective& collective,
                                                                           collectives::Reach reach) {
  const Key wanted = key(collective, reach);
  if (last_ != schedules_.end() && last_->first == wanted) return last_->second;
  last_ = schedules_.find(wanted);
  if (last_ == schedules_.end())
    last_ = schedules_.emplace(wanted, std::make_shared<const CompiledSchedule>(make(wanted))).first;
  return last_->second;
}

ScheduleCache::Key ScheduleCache::key(const Collective& collective, collectives::Reach reach) const {
  const bool gather = collective.kind == CollectiveKind::all_gather;
  const Count part = part_of(collective, shape_.ranks());
  const ConstBuffer out = collective.out;
  const ConstBuffer own = gather ? slice(out, {part.value * me_.value}, part) : out;
  return {.kind = collective.kind,
          .count = part.value,
          .root = collective.root.value,
          .element_bytes = size_of(out.dtype),
          .in_place = part.value > 0 && own.data == collective.in.data,
          .reach = reach};
}

CompiledSchedule ScheduleCache::make(const Key& key) const {
  const collectives::Choice choice = choose(selection_, key.kind, {key.count * key.element_bytes}).choice;
  const Count segment{std::max<std::int64_t>(1, choice.segment.value / key.element_bytes)};
  const Count staging{std::max<std::int64_t>(1, staging_.value / key.element_bytes)};
  const collectives::CollectiveDescription description{.kind = key.kind,
                                                       .ranks = shape_.ranks(),
                                                       .count = {key.count},
                                                       .root = {key.root},
                                                       .own = {.leaves = 1, .in_place = key.in_place},
                                                       .radix = choice.radix,
                                                       .shape = shape_,
                                                       .reach = key.reach};
  return {collectives::algorithm_name(key.kind, choice.algorithm),
          collectives::make_schedule(me_, description, choice.algorithm, segment, staging), choice.blocks_in_flight};
}

}  // namespace lockstep::backends
