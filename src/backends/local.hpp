// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/plan/options.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

class LocalGroup;

/// What the threads of one process that act as ranks share.
/// @throws Error{invalid_argument} unless there is a rank
std::shared_ptr<LocalGroup> make_local_group(int ranks);
/// Threads that act as ranks of several nodes: only those of one node share memory, the others exchange messages.
std::shared_ptr<LocalGroup> make_local_group(ClusterShape shape);

/// One thread's end of a group: lockstep's own algorithms, with memory copies for messages. Each thread has a Progress
/// of its own. All give the same options.
/// @throws Error{invalid_argument} if `rank` is not in the group or an option is out of range; Error{mismatch} that
/// says
///         what is different from the first rank's options, on a rank that comes later. The others hear of it, as of
///         any failure: nobody waits here for anybody
std::unique_ptr<Communicator> make_local(const std::shared_ptr<LocalGroup>& group, Rank rank, Progress& progress,
                                         const PlanOptions& options = {});

}  // namespace lockstep::backends
