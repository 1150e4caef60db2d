// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backends/plan/options.hpp"
#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep::backends {

/// The ranks to which a rank sends over connections, if lockstep uses any: those of other hosts; with
/// `Sockets::everywhere`, all others.
std::vector<int> ranks_by_socket(const ClusterShape& shape, Rank me, Sockets sockets);

/// Those of `ranks_by_socket` to which connections are made at the start: all, if the cluster has few ranks; otherwise
/// those with which a rank exchanges small messages in recursive doubling, with and without a hierarchy, and in
/// barriers among powers of two. It is a partner of each of its partners. With `Sockets::everywhere` the cluster counts
/// as large.
std::vector<int> socket_partners(const ClusterShape& shape, Rank me, Sockets sockets);

}  // namespace lockstep::backends
