#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "backends/plan/compiled_plan.hpp"
#include "lockstep/collectives/schedule.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// A schedule whose plans are ready to be driven.
class CompiledSchedule {
 public:
  explicit CompiledSchedule(collectives::Schedule schedule)
      : schedule_(std::move(schedule)), full_(schedule_.full()), tail_(schedule_.tail()) {}

  [[nodiscard]] bool shares_memory() const { return full_.shares_memory(); }
  [[nodiscard]] std::int64_t size() const { return schedule_.size(); }
  [[nodiscard]] collectives::BlockView view(std::int64_t block) const { return schedule_.view(block); }
  [[nodiscard]] const CompiledPlan& plan(std::int64_t block) const { return schedule_.is_tail(block) ? tail_ : full_; }

 private:
  collectives::Schedule schedule_;
  CompiledPlan full_;
  CompiledPlan tail_;
};

/// The schedules that one rank of a communicator has run so far: training repeats the same few operations, and making
/// a plan allocates.
class ScheduleCache {
 public:
  /// @param shape    of the communicator
  /// @param staging  of a block, where ranks share memory
  ScheduleCache(Rank me, ClusterShape shape, collectives::Algorithm algorithm, Bytes segment, Bytes staging)
      : me_(me), shape_(std::move(shape)), algorithm_(algorithm), segment_(segment), staging_(staging) {}

  /// @param reach  how the others of the node reach this rank's data
  const std::shared_ptr<const CompiledSchedule>& find_or_make(const Collective& collective, collectives::Reach reach);

 private:
  struct Key {
    CollectiveKind kind;
    std::int64_t count;
    int root;
    std::int64_t element_bytes;
    bool in_place;
    collectives::Reach reach;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  [[nodiscard]] Key key(const Collective& collective, collectives::Reach reach) const;
  [[nodiscard]] collectives::Schedule make(const Key& key) const;

  Rank me_;
  ClusterShape shape_;
  collectives::Algorithm algorithm_;
  Bytes segment_;
  Bytes staging_;
  std::map<Key, std::shared_ptr<const CompiledSchedule>> schedules_;
  decltype(schedules_)::const_iterator last_ = schedules_.end();  // mostly the next one too
};

}  // namespace lockstep::backends
