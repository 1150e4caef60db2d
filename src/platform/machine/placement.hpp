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

/// What a rank of a node chooses its GPU by.
struct GpuChoices {
  std::vector<Gpu> visible;  ///< in the order of the runtime's device indices; launchers may show each rank others
  CpuSet bound;              ///< the PUs it may run on
};

/// The GPU of each local rank, as an index into its own list; nothing where it sees none.
///
/// No GPU is given twice if that is possible. Ranks with the smallest cpusets choose first, then the lower local rank;
/// each takes the first free GPU near its processors. Those who find none near take the first that is left. Where
/// nobody is bound and all see the same this is local rank → GPU of the same index. Where GPUs do not suffice, who gets
/// none of its own shares that of local rank modulo GPUs, which NCCL refuses.
/// @param ranks  by local rank
std::vector<std::optional<int>> assign_gpus(std::span<const GpuChoices> ranks);

/// The GPUs that the runtime shows, with what hwloc knows of those in the same places of the PCI bus. All instances of
/// a divided GPU are in its place. One that hwloc does not know is near nobody.
/// @param seen   in the order of the runtime's device indices; what is not empty of each stays
/// @param known  the machine's
std::vector<Gpu> locate_gpus(std::vector<Gpu> seen, std::span<const Gpu> known);

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
