#include "backends/plan/schedule_cache.hpp"

#include <algorithm>

namespace lockstep::backends {
namespace {

collectives::Operation operation_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return collectives::Operation::all_reduce;
    case CollectiveKind::broadcast: return collectives::Operation::broadcast;
    case CollectiveKind::all_gather: return collectives::Operation::all_gather;
    case CollectiveKind::reduce_scatter: return collectives::Operation::reduce_scatter;
    case CollectiveKind::barrier: break;
  }
  return collectives::Operation::barrier;
}

}  // namespace

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
  const bool scatter = collective.kind == CollectiveKind::reduce_scatter;
  const bool gather = collective.kind == CollectiveKind::all_gather;
  const Count part = scatter ? collective.out.count : collective.in.count;
  const ConstBuffer out = collective.out;
  const ConstBuffer own = gather ? slice(out, {part.value * me_.value}, part) : out;
  return {.kind = collective.kind,
          .count = part.value,
          .root = collective.root.value,
          .element_bytes = size_of(out.dtype),
          .in_place = own.data == collective.in.data,
          .reach = reach};
}

collectives::Schedule ScheduleCache::make(const Key& key) const {
  const Count segment{std::max<std::int64_t>(1, segment_.value / key.element_bytes)};
  const Count staging{std::max<std::int64_t>(1, staging_.value / key.element_bytes)};
  return collectives::make_schedule(me_,
                                    {.operation = operation_of(key.kind),
                                     .ranks = shape_.ranks(),
                                     .count = {key.count},
                                     .root = {key.root},
                                     .own = {.leaves = 1, .in_place = key.in_place},
                                     .shape = shape_,
                                     .reach = key.reach},
                                    algorithm_, segment, staging);
}

}  // namespace lockstep::backends
