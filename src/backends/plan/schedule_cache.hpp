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

#include "collectives/choice/selection.hpp"
#include "collectives/plan/plan.hpp"
#include "collectives/schedule/schedule.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::backends {

/// A plan in executable form: the dependencies are inverted, so that a finished step finds the steps that wait for it.
class CompiledPlan {
 public:
  explicit CompiledPlan(collectives::Plan plan);

  [[nodiscard]] const std::vector<collectives::Step>& steps() const { return plan_.steps; }
  /// Returns whether it has steps that need a link to the node's ranks.
  [[nodiscard]] bool shares_memory() const { return shares_memory_; }
  /// Returns whether its steps are best run one by one: it shares memory and has no messages.
  [[nodiscard]] bool is_in_order() const { return is_in_order_; }
  [[nodiscard]] Count staging() const { return plan_.staging; }
  [[nodiscard]] Count scratch() const { return plan_.scratch; }
  /// Returns the elements of the largest message that is reduced on arrival.
  [[nodiscard]] Count landing() const { return landing_; }
  /// Returns which of the `landing_buffers` a ReceiveReduce uses.
  [[nodiscard]] int landing_buffer(int step) const { return landing_buffer_[static_cast<std::size_t>(step)]; }

  /// The first function returns for each step the number of events that it waits for, the others the steps that wait
  /// for a step to be done or to be started.
  [[nodiscard]] const std::vector<int>& waits() const { return waits_; }
  [[nodiscard]] const std::vector<int>& after_done(int step) const {
    return after_done_[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] const std::vector<int>& after_started(int step) const {
    return after_started_[static_cast<std::size_t>(step)];
  }

 private:
  collectives::Plan plan_;
  bool shares_memory_ = false;
  bool is_in_order_ = false;
  Count landing_;
  std::vector<int> landing_buffer_;
  std::vector<int> waits_;
  std::vector<std::vector<int>> after_done_;
  std::vector<std::vector<int>> after_started_;
};

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
/// and making a plan allocates. Leaves may move between ranks any number of times: of their shares, where these are not
/// nearly equal, only the last ones are kept, and of operations with per-rank counts the last `most_of_parts`, or
/// fewer.
class ScheduleCache {
 public:
  static constexpr std::size_t most_of_parts = 1024;
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
    LeafShares leaves;
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
