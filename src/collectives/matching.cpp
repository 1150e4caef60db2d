#include "collectives/matching.hpp"

#include <map>
#include <utility>

#include "collectives/step.hpp"

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

}  // namespace lockstep::collectives
