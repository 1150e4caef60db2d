// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collectives/proof/checks.hpp"
#include "collectives/proof/matching.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

using Ranks = std::set<int>;

/// The ranks that are known to have begun, for each step once it is done.
class Knowledge {
 public:
  explicit Knowledge(std::span<const Plan> plans) {
    for (const Plan& plan : plans) {
      waits_for_.push_back(dependencies(plan));
      after_.emplace_back(plan.steps.size());
    }
  }

  /// Returns what the rank of a step is sure to know when the step begins.
  [[nodiscard]] Ranks before(StepId s) const {
    Ranks known{s.rank};
    for (const int d : waits_for_[static_cast<std::size_t>(s.rank)][static_cast<std::size_t>(s.step)].done)
      known.insert(after(s.rank)[static_cast<std::size_t>(d)].begin(),
                   after(s.rank)[static_cast<std::size_t>(d)].end());
    return known;
  }
  void learn(StepId s, const Ranks& news) {
    Ranks& known = after_[static_cast<std::size_t>(s.rank)][static_cast<std::size_t>(s.step)];
    known = before(s);
    known.insert(news.begin(), news.end());
  }
  /// Returns what a rank knows from the steps before `step`.
  [[nodiscard]] Ranks all_before(StepId s) const {
    Ranks known{s.rank};
    for (int i = 0; i < s.step; ++i)
      known.insert(after(s.rank)[static_cast<std::size_t>(i)].begin(),
                   after(s.rank)[static_cast<std::size_t>(i)].end());
    return known;
  }

 private:
  [[nodiscard]] const std::vector<Ranks>& after(int rank) const { return after_[static_cast<std::size_t>(rank)]; }

  std::vector<std::vector<Dependencies>> waits_for_;
  std::vector<std::vector<Ranks>> after_;
};

}  // namespace

std::optional<Fault> find_uninformed(std::span<const Plan> plans) {
  Knowledge knowledge(plans);
  std::map<std::pair<int, int>, std::vector<StepId>> publishers;  // by Await
  for (const Wait& wait : match_phases(plans))
    if (wait.publish) publishers[{wait.await.rank, wait.await.step}].push_back(*wait.publish);
  for (const TimelineEvent& event : run(plans, 1, {}).events) {
    if (event.peer < 0) {
      Ranks news;
      for (const StepId publish : publishers[{event.rank, event.step}]) news.merge(knowledge.before(publish));
      knowledge.learn({event.rank, event.step}, news);
      continue;
    }
    const StepId receive{event.peer, event.peer_step};
    const Ranks news = knowledge.before({event.rank, event.step});
    knowledge.learn({event.rank, event.step}, {});
    knowledge.learn(receive, news);
    const Ranks known = knowledge.all_before(receive);
    if (std::includes(known.begin(), known.end(), news.begin(), news.end()))
      return Fault{FaultKind::redundant, receive.rank, receive.step, "the signal brings no news"};
  }
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    const int steps = static_cast<int>(plans[static_cast<std::size_t>(rank)].steps.size());
    const std::size_t heard = knowledge.all_before({rank, steps}).size();
    if (heard != plans.size())
      return Fault{FaultKind::missing, rank, -1, "ends after hearing of only " + std::to_string(heard) + " ranks"};
  }
  return std::nullopt;
}

}  // namespace lockstep::collectives
