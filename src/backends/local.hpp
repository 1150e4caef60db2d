// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/plan/options.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::backends {

class LocalGroup;

/// Makes the state shared by the threads of one process that act as ranks.
/// @throws Error{invalid_argument} unless there is a rank
std::shared_ptr<LocalGroup> make_local_group(int ranks);
/// Makes the state of threads that act as ranks of several nodes: only the threads of one node share memory, the others
/// exchange messages.
std::shared_ptr<LocalGroup> make_local_group(ClusterShape shape);

/// Makes one thread's communicator in a group: lockstep's own algorithms, with memory copies for messages. Each thread
/// has a Progress of its own. All threads pass the same options.
/// @throws Error{invalid_argument} if `rank` is not in the group or an option is out of range; Error{mismatch} that
///         names the differences from the first rank's options, on a rank that comes later. The other ranks learn of it
///         as of any failure, because no rank waits for another here.
std::unique_ptr<Communicator> make_local(const std::shared_ptr<LocalGroup>& group, Rank rank, Progress& progress,
                                         const PlanOptions& options = {});

}  // namespace lockstep::backends
