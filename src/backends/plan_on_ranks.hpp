// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/plan/options.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/ranks/connector.hpp"

namespace lockstep::backends {

/// Makes a communicator that runs lockstep's own algorithms over messages and shared memory: after this call it uses
/// no MPI collective. Collective over `group`, which may be closed afterwards. Ranks agree on what one of them may not
/// get: if the ranks of a node cannot share memory, a selection that forces nothing uses messages only, and one that
/// forces an algorithm in shared memory fails; if hosts cannot be connected, messages between them go by MPI.
/// @param options  the same on all ranks, and not compared here: `selection_on` has completed their selection, and
///                 their sockets are from `sockets_on`. Set to what can be had, so that it is not tried again for
///                 another communicator of the group. `notice` is told so by rank 0
/// @throws Error{unsupported}, on every rank, if shared memory or sockets are demanded and not available;
///         Error{transport}; Error{invalid_argument} if an option is out of range
std::unique_ptr<Communicator> make_plan_communicator(const RankSet& group, Progress& progress, PlanOptions& options);

/// Returns `no` where messages between hosts go by MPI, because all ranks are on one host, or because MPI has RDMA.
/// @param is_rdma_anywhere  whether `has_rdma` on any rank
Sockets sockets_on(const ClusterShape& shape, const PlanOptions& wish, bool is_rdma_anywhere);

/// Connects this rank to its `socket_partners`. Collective. `notice` is called by rank 0 if
/// connections that would help cannot be made.
/// @return nothing, on every rank, if messages between hosts go by MPI
/// @throws Error{unsupported}, on every rank, if connections are demanded and cannot be made; Error{transport}
std::optional<std::vector<Connection>> connect_hosts(const RankSet& group, Connector& connector,
                                                     const PlanOptions& options);

}  // namespace lockstep::backends
