// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/snapshot.hpp"

namespace lockstep::trainer {

/// Whether all ranks can go on from rank 0's snapshot, whose settings each compares with its own. Collective.
/// @param own  this rank's, to which the snapshot's lengths belong as well
/// @throws Error{mismatch} on every rank that names the ranks that cannot, and the first setting that differs there
void require_same_run(ProcessGroup& group, const std::vector<Snapshot::Setting>& rank_zeros,
                      const std::vector<Snapshot::Setting>& own);

/// Rank 0's text, on every rank. Collective.
std::string rank_zeros_text(ProcessGroup& group, const std::string& text);

/// Whether there is no obstacle to going on from rank 0's snapshot on any rank. Collective.
/// @param obstacle  what this rank has found wrong with the snapshot, after "rank 0's snapshot, which"; empty: nothing
/// @throws Error{mismatch} on every rank that names the ranks that have one, and the first one
void require_no_obstacle(ProcessGroup& group, const std::string& obstacle);

}  // namespace lockstep::trainer
