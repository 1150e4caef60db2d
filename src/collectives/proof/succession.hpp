// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/proof/simulator.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// One of several operations that follow each other on a channel.
struct Turn {
  Trial trial;
  std::vector<Plan> plans;  ///< one for each rank, all of which share memory
};

/// What a rank goes by when it opens a block; see NodeLink. Tests take parts of it away.
struct SlotRule {
  int slots = slots_of_a_channel;
  /// Looks at the flags of those that it does not know to have entered.
  bool looks = true;
  /// The number of blocks by which the one that all must have entered may be earlier than the rule says.
  int slack = 0;
  /// Takes all to have entered a block only if it has awaited all of them in it, not if it has awaited any.
  bool awaits_all = true;
};

/// Proves that these operations, one after the other on one channel, do not disturb each other: nobody touches a slot's
/// announcement or staging area while somebody else may still use it for an earlier operation, no flag that is awaited
/// can be overwritten before it has been seen, and nothing waits for ever. Each operation by itself is `simulate`'s
/// matter. A succession of one more than there are slots shows all that any longer one could: slots are used in turn,
/// and an operation that is another `slots` ahead can only be opened after all ranks have entered what lies between.
/// @param shape  empty: all ranks on one node
/// @return the first fault; its step is within the plan of the turn that the text names, −1 for its opening
std::optional<Fault> prove_succession(std::span<const Turn* const> turns, const ClusterShape& shape,
                                      const SlotRule& rule = {});

}  // namespace lockstep::collectives
