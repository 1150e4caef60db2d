#include <algorithm>
#include <map>
#include <utility>

#include "collectives/interval_map.hpp"
#include "collectives/step.hpp"

namespace lockstep::collectives {
namespace {

/// Who touched some elements last: enough to order the next one, since whoever came before is ordered before these.
struct LastUse {
  int writer = -1;
  std::vector<int> readers;  ///< since that write
};

class Tracker {
 public:
  /// Records that step `step` touches the ranges of `accesses` and returns the steps it conflicts with.
  std::vector<int> touch(int step, const Accesses& accesses) {
    std::vector<int> conflicts;
    for (const Range& range : accesses.reads()) read(step, range, conflicts);
    if (accesses.write()) write(step, *accesses.write(), conflicts);
    std::sort(conflicts.begin(), conflicts.end());
    conflicts.erase(std::unique(conflicts.begin(), conflicts.end()), conflicts.end());
    std::erase(conflicts, step);
    return conflicts;
  }

 private:
  using Elements = IntervalMap<LastUse>;
  Elements& elements(const Range& range) { return memories_[{range.memory, range.leaf}]; }

  void read(int step, const Range& range, std::vector<int>& conflicts) {
    elements(range).visit(range.offset, range.offset + range.count, [&](auto, auto, LastUse& last) {
      if (last.writer >= 0) conflicts.push_back(last.writer);
      last.readers.push_back(step);
    });
  }

  void write(int step, const Range& range, std::vector<int>& conflicts) {
    Elements& memory = elements(range);
    memory.visit(range.offset, range.offset + range.count, [&](auto, auto, const LastUse& last) {
      if (last.writer >= 0 && last.readers.empty()) conflicts.push_back(last.writer);
      conflicts.insert(conflicts.end(), last.readers.begin(), last.readers.end());
    });
    memory.assign(range.offset, range.offset + range.count, LastUse{step, {}});
  }

  std::map<std::pair<Memory, int>, Elements> memories_;
};

void insert_sorted(std::vector<int>& steps, int step) {
  const auto place = std::lower_bound(steps.begin(), steps.end(), step);
  if (place == steps.end() || *place != step) steps.insert(place, step);
}

/// Drops what another entry waits for already.
void prune(std::vector<int>& done, const std::vector<Dependencies>& all) {
  const std::vector<int> direct = done;
  std::erase_if(done, [&](int step) {
    return std::any_of(direct.begin(), direct.end(), [&](int other) {
      const std::vector<int>& implied = all[static_cast<std::size_t>(other)].done;
      return std::binary_search(implied.begin(), implied.end(), step);
    });
  });
}

}  // namespace

std::vector<Dependencies> dependencies(const Plan& plan) {
  std::vector<Dependencies> result;
  result.reserve(plan.steps.size());
  Tracker tracker;
  std::map<std::pair<int, Direction>, int> last_with;
  std::vector<int> signals;   // receives of empty messages
  std::vector<int> landings;  // steps that need a landing buffer
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
    prune(own.done, result);
    result.push_back(std::move(own));
  }
  return result;
}

}  // namespace lockstep::collectives
