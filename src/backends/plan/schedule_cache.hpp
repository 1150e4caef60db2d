// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/plan/compiled_plan.hpp"
#include "collectives/algorithms/schedule.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// A schedule whose plans are compiled.
class CompiledSchedule {
 public:
  /// @param algorithm  name of the algorithm, which lives as long as the program
  CompiledSchedule(std::string_view algorithm, collectives::Schedule schedule, int blocks_in_flight)
      : algorithm_(algorithm), schedule_(std::move(schedule)), blocks_in_flight_(blocks_in_flight) {
    for (const collectives::Stretch& stretch : schedule_.stretches()) plans_.emplace_back(stretch.plan);
    if (schedule_.size() > 0) first_view_ = schedule_.view(0);
  }

  [[nodiscard]] std::string_view algorithm() const { return algorithm_; }
  [[nodiscard]] std::int64_t size() const { return schedule_.size(); }
  [[nodiscard]] int blocks_in_flight() const { return blocks_in_flight_; }
  // Block 0 is a special case, because many schedules have only one block and end soon.
  [[nodiscard]] collectives::BlockView view(std::int64_t block) const {
    return block == 0 ? first_view_ : schedule_.view(block);
  }
  [[nodiscard]] const CompiledPlan& plan(std::int64_t block) const {
    return plans_[block == 0 ? 0 : schedule_.stretch_of(block)];
  }

 private:
  std::string_view algorithm_;
  collectives::Schedule schedule_;
  std::vector<CompiledPlan> plans_;  // by stretch
  int blocks_in_flight_;
  collectives::BlockView first_view_{1, 0, 0};
};

/// The schedules that one rank of a communicator has run so far. Training repeats the same few operations, and choosing
/// and making a plan allocates.
class ScheduleCache {
 public:
  /// @param shape      shape of the communicator
  /// @param selection  determines how to run an operation of a given size; the same on all ranks
  /// @param staging    bytes of a block's staging area if ranks share memory
  /// @param shares     whether this rank shares memory with the other ranks of its node
  ScheduleCache(Rank me, ClusterShape shape, collectives::Selection selection, Bytes staging, bool shares)
      : me_(me), shape_(std::move(shape)), selection_(std::move(selection)), staging_(staging), shares_(shares) {}

  /// @param reach  how the other ranks of the node access this rank's data
  const std::shared_ptr<const CompiledSchedule>& find_or_make(const Collective& collective, collectives::Reach reach);

 private:
  struct Key {
    CollectiveKind kind;
    std::int64_t count;
    int root;
    std::int64_t element_bytes;
    bool in_place;
    collectives::Reach reach;
    int leaves;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// The lookup key of a call with per-rank counts, which allocates nothing.
  struct PartsView {
    Key call;
    std::span<const Count> parts;
    std::span<const Count> received;
  };
  struct PartsKey {
    explicit PartsKey(const PartsView& view)
        : call(view.call),
          parts(view.parts.begin(), view.parts.end()),
          received(view.received.begin(), view.received.end()) {}
    Key call;
    std::vector<Count> parts;
    std::vector<Count> received;
  };
  struct Before {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return compare(a, b) < 0;
    }
  };
  template <typename A, typename B>
  static std::strong_ordering compare(const A& a, const B& b) {
    const auto each = [](const auto& x, const auto& y) {
      return std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
    };
    if (const auto calls = a.call <=> b.call; calls != 0) return calls;
    if (const auto parts = each(a.parts, b.parts); parts != 0) return parts;
    return each(a.received, b.received);
  }
  const std::shared_ptr<const CompiledSchedule>& find_or_make_of_parts(const PartsView& wanted);
  [[nodiscard]] Key key(const Collective& collective, collectives::Reach reach) const;
  [[nodiscard]] bool is_in_place(const Collective& collective, Count part) const;
  [[nodiscard]] CompiledSchedule make(const Key& key, std::span<const Count> parts = {},
                                      std::span<const Count> received = {}) const;

  Rank me_;
  ClusterShape shape_;
  collectives::Selection selection_;
  Bytes staging_;
  bool shares_;
  std::map<Key, std::shared_ptr<const CompiledSchedule>> schedules_;
  decltype(schedules_)::const_iterator last_ = schedules_.end();  // last one used, usually the next one too
  std::map<PartsKey, std::shared_ptr<const CompiledSchedule>, Before> schedules_of_parts_;
};

}  // namespace lockstep::backends
