// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/machine/cpu_set.hpp"
#include "platform/machine/topology.hpp"

/// Pure functions from one node's topology, and what its ranks are bound to, to what each rank should use.
namespace lockstep {

/// The GPU of each local rank, as an index into `visible`; nothing where no GPU is visible.
///
/// - One is visible: it, for every rank. (A launcher that gives each task its own GPU shows each task only that one.)
/// - More ranks than GPUs: local rank modulo GPUs. Two ranks then share one, which NCCL refuses.
/// - Otherwise no GPU is given twice. Ranks with the smallest cpusets choose first, then the lower local rank; each
/// takes
///   the first free GPU near its processors. Those who find none near take the first that is left. Where nobody is
///   bound this is local rank → GPU of the same index.
/// @param visible  the GPUs that every rank of the node sees, in the order of the runtime's device indices
/// @param bound    by local rank: the PUs it may run on
std::vector<std::optional<int>> assign_gpus(std::span<const Gpu> visible, std::span<const CpuSet> bound);

/// Whether ranks have to take turns on processing units, so that one that waits must yield at once: some ranks are
/// bound within a set of fewer PUs than they have threads.
/// @param bound             by local rank: the PUs it may run on
/// @param threads_per_rank  ≥ 1, that compute at the same time
bool oversubscribed(std::span<const CpuSet> bound, int threads_per_rank = 1);

/// A sentence, with the remedy, where ranks were bound so that they share cores while other cores have no rank at all.
/// @param topology  of the machine
/// @param ranks     global ranks, ascending
/// @param bound     for each of `ranks`, the PUs it may run on
std::optional<std::string> binding_warning(const Topology& topology, std::span<const int> ranks,
                                           std::span<const CpuSet> bound);

}  // namespace lockstep
