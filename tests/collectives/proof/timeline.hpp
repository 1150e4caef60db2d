// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/choice/selection.hpp"
#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// A step that ran. A message is one event; rank and step are then the sender's.
struct TimelineEvent {
  int rank = 0;
  int step = 0;
  int peer = -1;  ///< the receiver; −1 for a local step
  int peer_step = -1;
  double start_seconds = 0;
  double end_seconds = 0;  ///< including the addition if the receiver adds
};

struct StepId {
  int rank;
  int step;
};

/// The simulated execution of the plans of all ranks.
struct Timeline {
  std::vector<TimelineEvent> events;  ///< in an order in which they could be run one by one
  std::vector<StepId> blocked;        ///< steps that can never run: a deadlock, or a message without its other half
  double seconds = 0;                 ///< until the last event ends
};

/// Runs the plans under synchronous sends: a message moves when both halves are posted, and a step is posted when all
/// steps that `dependencies` names are done or posted. Each rank has one port to send, one to receive and one adder,
/// each of which does one thing at a time and takes the step that can begin first. Each node has such ports for the
/// bytes that its ranks exchange with other nodes.
/// @param shape  as many ranks as plans; empty: all on one node
/// @pre   every peer is another rank with a plan
/// @cost  O(s log s) for s steps in all
Timeline run(std::span<const Plan> plans, std::int64_t element_bytes, const CostModel& model,
             const ClusterShape& shape = {});

/// Returns the number of messages on the longest chain, with one port each way: the α term of a plan's cost.
int rounds(std::span<const Plan> plans);

/// The messages and bytes that one rank sends.
struct Traffic {
  std::int64_t messages = 0;
  Bytes bytes;
};
Traffic traffic(const Plan& plan, std::int64_t element_bytes);

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
