// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

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

/// Adds the binding of this rank to an agreement of `ranks` ranks of one node, and its last-level cache if there are so
/// many that it matters. Nothing else is read of the machine's topology.
void add_binding(Agreement& agreement, int ranks);
/// Returns after the exchange whether ranks have to take turns on the processing units that they are bound to.
bool take_turns(const Agreement& agreement);
/// Returns after the exchange by how many to divide the ranks of the node, as the function of the same name in
/// platform/machine/placement.hpp does.
int ranks_per_cache(const Agreement& agreement);

}  // namespace lockstep
