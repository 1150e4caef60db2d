// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "backends/plan/compiled_plan.hpp"
#include "collectives/algorithms/schedule.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// A schedule whose plans are ready to be driven.
class CompiledSchedule {
 public:
  /// @param algorithm  its name, which lives as long as the program
  CompiledSchedule(std::string_view algorithm, collectives::Schedule schedule, int blocks_in_flight)
      : algorithm_(algorithm),
        schedule_(std::move(schedule)),
        full_(schedule_.full()),
        tail_(schedule_.tail()),
        blocks_in_flight_(blocks_in_flight),
        first_view_(schedule_.size() > 0 ? schedule_.view(0) : collectives::BlockView{1, 0, 0}) {}

  [[nodiscard]] std::string_view algorithm() const { return algorithm_; }
  [[nodiscard]] bool shares_memory() const { return full_.shares_memory(); }
  [[nodiscard]] std::int64_t size() const { return schedule_.size(); }
  [[nodiscard]] int blocks_in_flight() const { return blocks_in_flight_; }
  // Many schedules have one block, and are over soon.
  [[nodiscard]] collectives::BlockView view(std::int64_t block) const {
    return block == 0 ? first_view_ : schedule_.view(block);
  }
  [[nodiscard]] const CompiledPlan& plan(std::int64_t block) const {
    return block > 0 && schedule_.is_tail(block) ? tail_ : full_;
  }

 private:
  std::string_view algorithm_;
  collectives::Schedule schedule_;
  CompiledPlan full_;
  CompiledPlan tail_;
  int blocks_in_flight_;
  collectives::BlockView first_view_;
};

/// The schedules that one rank of a communicator has run so far: training repeats the same few operations, and choosing
/// and making a plan allocates.
class ScheduleCache {
 public:
  /// @param shape      of the communicator
  /// @param selection  says how to run an operation on so many bytes; the same on all ranks
  /// @param staging    of a block, where ranks share memory
  ScheduleCache(Rank me, ClusterShape shape, collectives::Selection selection, Bytes staging)
      : me_(me), shape_(std::move(shape)), selection_(std::move(selection)), staging_(staging) {}

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
  [[nodiscard]] CompiledSchedule make(const Key& key) const;

  Rank me_;
  ClusterShape shape_;
  collectives::Selection selection_;
  Bytes staging_;
  std::map<Key, std::shared_ptr<const CompiledSchedule>> schedules_;
  decltype(schedules_)::const_iterator last_ = schedules_.end();  // mostly the next one too
};

}  // namespace lockstep::backends
