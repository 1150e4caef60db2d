// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "platform/machine/placement.hpp"
#include "platform/machine/topology.hpp"
#include "platform/ranks/agreement.hpp"

/// What ranks tell each other, in an agreement, of where they run.
namespace lockstep {

/// Adds the input for choosing the GPU of each rank to an agreement: the `gpus` of this rank's topology and its
/// binding.
void add_gpu_choices(Agreement& agreement, const Topology& topology);
/// Returns what `add_gpu_choices` has added, by rank, after the exchange.
std::vector<GpuChoices> gpu_choices(const Agreement& agreement);

/// Adds the binding of this rank to an agreement, and its last-level cache if its node has so many ranks that it
/// matters. Nothing else is read of the machine's topology.
void add_binding(Agreement& agreement, int ranks_of_node);
/// Returns after the exchange whether ranks, which are all on one node, have to take turns on the processing units that
/// they are bound to.
bool take_turns(const Agreement& agreement);
/// Returns after the exchange by how many to divide the ranks of each node, as the function of the same name in
/// platform/machine/placement.hpp does; 0 if nodes differ in that, or if ranks have to take turns, because each
/// synchronization costs them a round of turns.
int ranks_per_cache(const Agreement& agreement, const ClusterShape& shape);

}  // namespace lockstep
