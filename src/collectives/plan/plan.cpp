// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <numeric>
#include <tuple>

#include "collectives/plan/interval_map.hpp"

namespace lockstep::collectives {
namespace {

/// The last accesses to some elements. They are enough to order the next access, since all earlier ones are ordered
/// before them.
struct LastUse {
  int writer = -1;
  std::vector<int> readers;  ///< since that write
};

class Tracker {
 public:
  /// Records that step `step` accesses the ranges of `accesses` and returns the steps it conflicts with.
  std::vector<int> touch(int step, const Accesses& accesses) {
    std::vector<int> conflicts;
    for (const NodeRange& at : accesses.reads()) read(step, at, conflicts);
    for (const NodeRange& at : accesses.writes()) write(step, at, conflicts);
    std::sort(conflicts.begin(), conflicts.end());
    conflicts.erase(std::unique(conflicts.begin(), conflicts.end()), conflicts.end());
    std::erase(conflicts, step);
    return conflicts;
  }

 private:
  using Elements = IntervalMap<LastUse>;
  Elements& elements(const NodeRange& at) { return memories_[{at.rank, at.range.memory, at.range.leaf}]; }

  void read(int step, const NodeRange& at, std::vector<int>& conflicts) {
    const Range& range = at.range;
    elements(at).visit(range.offset, range.offset + range.count, [&](auto, auto, LastUse& last) {
      if (last.writer >= 0) conflicts.push_back(last.writer);
      last.readers.push_back(step);
    });
  }

  void write(int step, const NodeRange& at, std::vector<int>& conflicts) {
    const Range& range = at.range;
    Elements& memory = elements(at);
    memory.visit(range.offset, range.offset + range.count, [&](auto, auto, const LastUse& last) {
      if (last.writer >= 0 && last.readers.empty()) conflicts.push_back(last.writer);
      conflicts.insert(conflicts.end(), last.readers.begin(), last.readers.end());
    });
    memory.assign(range.offset, range.offset + range.count, LastUse{step, {}});
  }

  std::map<std::tuple<int, Memory, int>, Elements> memories_;
};

void insert_sorted(std::vector<int>& steps, int step) {
  const auto place = std::lower_bound(steps.begin(), steps.end(), step);
  if (place == steps.end() || *place != step) steps.insert(place, step);
}

/// Drops steps that another entry already waits for.
void prune(std::vector<int>& done, const std::vector<Dependencies>& all) {
  std::vector<bool> implied(all.size());
  for (const int other : done)
    for (const int step : all[static_cast<std::size_t>(other)].done) implied[static_cast<std::size_t>(step)] = true;
  std::erase_if(done, [&](int step) { return implied[static_cast<std::size_t>(step)]; });
}

}  // namespace

std::optional<Message> message(const Step& step) {
  if (const auto* send = std::get_if<Send>(&step)) return Message{send->peer, Direction::send, send->from.count};
  if (const auto* receive = std::get_if<Receive>(&step))
    return Message{receive->peer, Direction::receive, receive->to.count};
  if (const auto* sum = std::get_if<ReceiveReduce>(&step)) return Message{sum->peer, Direction::receive, sum->to.count};
  return std::nullopt;
}

Accesses::Accesses(const Step& step) {
  const auto touch = [this](std::initializer_list<Range> reads, std::initializer_list<Range> writes) {
    for (const Range& range : reads) reads_.push_back({self, range});
    for (const Range& range : writes) writes_.push_back({self, range});
  };
  std::visit(Overloaded{
                 [&](const Send& s) { touch({s.from}, {}); },
                 [&](const Receive& s) { touch({}, {s.to}); },
                 [&](const ReceiveReduce& s) { touch({s.own}, {s.to}); },
                 [&](const Copy& s) { touch({s.from}, {s.to}); },
                 [&](const Reduce& s) {
                   touch({s.to, s.from}, {s.to});
                 },
                 [&](const Fill& s) { touch({}, {s.to}); },
                 [&](const Combine& s) {
                   reads_ = s.from;
                   writes_ = s.to;
                 },
                 [](const Publish&) {},
                 [](const Await&) {},
             },
             step);
}

std::vector<Dependencies> dependencies(const Plan& plan) {
  std::vector<Dependencies> result;
  result.reserve(plan.steps.size());
  Tracker tracker;
  std::map<std::pair<int, Direction>, int> last_with;
  std::vector<int> signals;   // receives of empty messages
  std::vector<int> landings;  // steps that need a landing buffer
  int last_await = -1;
  int last_publish = -1;
  for (const Step& step : plan.steps) {
    const int index = static_cast<int>(result.size());
    Dependencies own{tracker.touch(index, Accesses(step)), {}};
    if (const auto half = message(step)) {
      const bool signal = half->count == 0;
      if (signal && half->direction == Direction::send) own.done = signals;
      if (signal && half->direction == Direction::receive) signals.push_back(index);
      const auto [last, first] = last_with.try_emplace({half->peer, half->direction}, index);
      if (!first && !std::binary_search(own.done.begin(), own.done.end(), last->second))
        own.started.push_back(last->second);
      last->second = index;
    }
    if (std::holds_alternative<ReceiveReduce>(step)) {
      if (landings.size() >= landing_buffers) insert_sorted(own.done, landings[landings.size() - landing_buffers]);
      landings.push_back(index);
    }
    if (last_await >= 0) insert_sorted(own.done, last_await);
    if (std::holds_alternative<Publish>(step)) {
      own.done.resize(static_cast<std::size_t>(index));
      std::iota(own.done.begin(), own.done.end(), 0);
    }
    if (std::holds_alternative<Await>(step)) {
      if (last_publish >= 0) insert_sorted(own.done, last_publish);
      last_await = index;
    }
    if (std::holds_alternative<Publish>(step)) last_publish = index;
    prune(own.done, result);
    result.push_back(std::move(own));
  }
  return result;
}

}  // namespace lockstep::collectives
