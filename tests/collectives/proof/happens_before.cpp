// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "collectives/plan/plan.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

/// The halves of the messages from one rank to another, in order.
struct Channel {
  std::vector<StepId> sends;
  std::vector<StepId> receives;
};

/// A set of moments, which are numbered.
class Set {
 public:
  explicit Set(std::size_t size) : words_((size + 63) / 64) {}
  void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  [[nodiscard]] bool contains(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  Set& operator|=(const Set& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// For every step of every rank, the steps that are done before it begins. Each rank has two more steps: the owner's
/// accesses before its first step and after its last.
class Order {
 public:
  Order(std::span<const Plan> plans, const Timeline& timeline) {
    std::size_t total = 0;
    for (const Plan& plan : plans) {
      first_.push_back(total);
      total += plan.steps.size() + 2;
    }
    before_.assign(total, Set(total));
    for (const Plan& plan : plans) waits_for_.push_back(dependencies(plan));
    publishers_.resize(total);
    for (const Wait& wait : match_phases(plans))
      if (wait.publish) publishers_[number(wait.await)].push_back(number(*wait.publish));

    for (const TimelineEvent& event : timeline.events) {
      const StepId step{event.rank, event.step};
      begin(step);
      if (event.peer < 0) continue;
      const StepId receive{event.peer, event.peer_step};
      begin(receive);
      before_[number(receive)] |= before_[number(step)];
    }
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      const auto owner = static_cast<int>(rank);
      const std::size_t last = end(owner);
      before_[last].insert(start(owner));
      for (int s = 0; s < static_cast<int>(plans[rank].steps.size()); ++s) follow(last, number({owner, s}));
    }
  }

  [[nodiscard]] std::size_t number(StepId s) const {
    return first_[static_cast<std::size_t>(s.rank)] + static_cast<std::size_t>(s.step) + 1;
  }
  [[nodiscard]] std::size_t start(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t end(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return first_[r] + waits_for_[r].size() + 1;
  }
  [[nodiscard]] bool is_ordered(std::size_t a, std::size_t b) const {
    return before_[a].contains(b) || before_[b].contains(a);
  }

 private:
  void begin(StepId step) {
    const std::size_t self_number = number(step);
    before_[self_number].insert(start(step.rank));
    for (const int d : waits_for_[static_cast<std::size_t>(step.rank)][static_cast<std::size_t>(step.step)].done)
      follow(self_number, number({step.rank, d}));
    for (const std::size_t publish : publishers_[self_number]) follow(self_number, publish);
  }
  void follow(std::size_t later, std::size_t earlier) {
    before_[later] |= before_[earlier];
    before_[later].insert(earlier);
  }

  std::vector<std::size_t> first_;  ///< number of each rank's start
  std::vector<std::vector<Dependencies>> waits_for_;
  std::vector<std::vector<std::size_t>> publishers_;  ///< by Await
  std::vector<Set> before_;
};

struct TimedTouch {
  int owner;
  Extent at;
  std::size_t moment;
  StepId step;  ///< −1 for the owner's own accesses
  bool writes;
};

std::vector<TimedTouch> touches(std::span<const Plan> plans, const Trial& trial, const Order& order) {
  std::vector<TimedTouch> all;
  const int ranks = static_cast<int>(plans.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto owned = [&](const Range& range) {
      for (const std::size_t moment : {order.start(rank), order.end(rank)})
        all.push_back({rank, extent_of(trial, rank, range), moment, {rank, -1}, true});
    };
    for (int leaf = 0; leaf < inputs_of(trial, rank); ++leaf)
      owned({Memory::input, 0, input_count(trial, ranks, rank), leaf});
    owned({Memory::output, 0, output_count(trial, ranks, rank)});
    const auto& steps = plans[static_cast<std::size_t>(rank)].steps;
    for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
      const StepId step{rank, s};
      const Accesses touched(steps[static_cast<std::size_t>(s)]);
      const auto add = [&](const NodeRange& at, bool writes) {
        const auto [owner, range] = seen(plans, rank, at, trial);
        all.push_back({owner, extent_of(trial, owner, range), order.number(step), step, writes});
      };
      for (const NodeRange& at : touched.reads()) add(at, false);
      for (const NodeRange& at : touched.writes()) add(at, true);
    }
  }
  std::erase_if(all, [](const TimedTouch& t) { return t.at.begin == t.at.end; });
  std::sort(all.begin(), all.end(), [](const TimedTouch& a, const TimedTouch& b) {
    return std::tuple(a.owner, a.at.memory, a.at.begin) < std::tuple(b.owner, b.at.memory, b.at.begin);
  });
  return all;
}

bool shares_memory(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [](const Step& step) { return std::holds_alternative<Combine>(step); });
}

}  // namespace

Matching match(std::span<const Plan> plans) {
  std::map<std::pair<int, int>, Channel> channels;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (std::size_t s = 0; s < plans[r].steps.size(); ++s) {
      const auto half = message(plans[r].steps[s]);
      if (!half) continue;
      const StepId id{rank, static_cast<int>(s)};
      if (half->direction == Direction::send) channels[{rank, half->peer}].sends.push_back(id);
      if (half->direction == Direction::receive) channels[{half->peer, rank}].receives.push_back(id);
    }
  }
  Matching result;
  for (const auto& [ends, channel] : channels) {
    const std::size_t both = std::min(channel.sends.size(), channel.receives.size());
    for (std::size_t i = 0; i < both; ++i) result.matches.push_back({channel.sends[i], channel.receives[i]});
    for (const auto* halves : {&channel.sends, &channel.receives})
      result.unmatched.insert(result.unmatched.end(), halves->begin() + static_cast<std::ptrdiff_t>(both),
                              halves->end());
  }
  return result;
}

std::vector<Wait> match_phases(std::span<const Plan> plans) {
  std::map<std::pair<int, int>, StepId> published;
  const auto for_each = [&]<class Kind>(std::in_place_type_t<Kind>, const auto& visit) {
    for (std::size_t r = 0; r < plans.size(); ++r)
      for (std::size_t s = 0; s < plans[r].steps.size(); ++s)
        if (const auto* step = std::get_if<Kind>(&plans[r].steps[s]))
          visit(StepId{static_cast<int>(r), static_cast<int>(s)}, *step);
  };
  for_each(std::in_place_type<Publish>,
           [&](StepId at, const Publish& step) { published.emplace(std::pair(at.rank, step.phase), at); });
  std::vector<Wait> waits;
  for_each(std::in_place_type<Await>, [&](StepId at, const Await& step) {
    for (const int peer : step.peers) {
      const auto found = published.find({peer, step.phase});
      waits.push_back({at, found == published.end() ? std::nullopt : std::optional(found->second)});
    }
  });
  return waits;
}

std::optional<Fault> find_race_between_ranks(std::span<const Plan> plans, const Timeline& timeline,
                                             const Trial& trial) {
  if (std::none_of(plans.begin(), plans.end(), shares_memory)) return std::nullopt;
  const Order order(plans, timeline);
  const std::vector<TimedTouch> all = touches(plans, trial, order);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TimedTouch& a = all[i];
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const TimedTouch& b = all[j];
      if (b.owner != a.owner || b.at.memory != a.at.memory || b.at.begin >= a.at.end) break;
      if (a.moment == b.moment || (!a.writes && !b.writes) || order.is_ordered(a.moment, b.moment)) continue;
      const TimedTouch& peer = a.step.rank == a.owner ? b : a;
      return Fault{FaultKind::race, peer.step.rank, peer.step.step,
                   "touches memory of rank " + std::to_string(a.owner) + " that is in use there"};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::collectives
