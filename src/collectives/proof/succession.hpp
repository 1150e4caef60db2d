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

/// The rule by which a rank opens a block; see NodeLink. Tests remove parts of it.
struct SlotRule {
  int slots = slots_of_a_channel;
  /// Whether it checks the flags of ranks that are not known to have entered.
  bool looks = true;
  /// The number of blocks by which the one that all must have entered may be earlier than the rule says.
  int slack = 0;
  /// Whether it takes all ranks to have entered a block only if it has awaited all of them in it, rather than any of
  /// them.
  bool awaits_all = true;
};

/// Proves that these operations, one after the other on one channel, do not interfere: no rank touches a slot's
/// announcement or staging area while another one may still use it for an earlier operation, no awaited flag can be
/// overwritten before it was seen, and nothing waits forever. `simulate` proves each operation alone. One operation
/// more than there are slots is enough, because slots are used in turn, and an operation that is another `slots` ahead
/// can only be opened after all ranks have entered the operations in between.
/// @param shape  empty: all ranks on one node
/// @return the first fault; its step is within the plan of the turn that the text names, −1 for its opening
std::optional<Fault> prove_succession(std::span<const Turn* const> turns, const ClusterShape& shape,
                                      const SlotRule& rule = {});

}  // namespace lockstep::collectives
