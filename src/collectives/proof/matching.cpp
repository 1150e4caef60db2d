// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/matching.hpp"

#include <map>
#include <utility>

#include "collectives/plan/step.hpp"

namespace lockstep::collectives {
namespace {

/// The halves of the messages from one rank to another, in order.
struct Channel {
  std::vector<StepId> sends;
  std::vector<StepId> receives;
};

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

}  // namespace lockstep::collectives
