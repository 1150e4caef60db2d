// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/snapshot.hpp"

namespace lockstep::trainer {

/// Whether all ranks can go on from rank 0's snapshot, whose settings each compares with its own. Collective.
/// @param own  this rank's, to which the snapshot's lengths belong as well
/// @throws Error{mismatch} on every rank that names the ranks that cannot, and the first setting that differs there
void require_same_run(ProcessGroup& group, const std::vector<Snapshot::Setting>& rank_zeros,
                      const std::vector<Snapshot::Setting>& own);

}  // namespace lockstep::trainer
