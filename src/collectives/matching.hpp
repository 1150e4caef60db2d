#pragma once

#include <span>
#include <vector>

#include "lockstep/collectives/timeline.hpp"

namespace lockstep::collectives {

/// The two halves of a message.
struct Match {
  StepId send;
  StepId receive;
};

struct Matching {
  std::vector<Match> matches;
  std::vector<StepId> unmatched;
};

/// Pairs sends with receives: between two ranks in the order of their plans, as MPI does with one tag.
Matching match(std::span<const Plan> plans);

}  // namespace lockstep::collectives
