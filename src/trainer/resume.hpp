// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ddp/rank_zero.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/snapshot.hpp"

namespace lockstep::trainer {

/// Checks that all ranks can resume from rank 0's snapshot: each compares its settings with its own. Collective.
/// @param own  this rank's settings, which include the lengths that the snapshot must have
/// @throws Error{mismatch} on every rank that names the ranks that cannot, and the settings that differ there
void require_same_run(ProcessGroup& group, const std::vector<Snapshot::Setting>& rank_zeros,
                      const std::vector<Snapshot::Setting>& own);

/// Checks that no rank has an obstacle to resuming from rank 0's snapshot. Collective.
/// @param obstacle  this rank's problem with the snapshot, to follow "rank 0's snapshot, which"; empty: none
/// @throws Error{mismatch} on every rank that names the ranks with an obstacle, and the first obstacle
void require_no_obstacle(ProcessGroup& group, const std::string& obstacle);

}  // namespace lockstep::trainer
