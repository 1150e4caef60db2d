// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/proof/timeline.hpp"

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

/// Pairs sends with receives in the order of the plans of the two ranks, as MPI does with one tag.
Matching match(std::span<const Plan> plans);

/// One peer of an Await, and the Publish that it waits for: none if that rank never publishes this phase.
struct Wait {
  StepId await;
  std::optional<StepId> publish;
};

std::vector<Wait> match_phases(std::span<const Plan> plans);

}  // namespace lockstep::collectives
