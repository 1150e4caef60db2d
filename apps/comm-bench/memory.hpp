// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/types.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Refuses what the nodes have no memory for: a node that swaps measures its disk, one that does not kills a rank.
/// @param per_rank  the buffers of one rank; back ends are granted as much again for copies of their own
/// @throws Error{unsupported}, on every rank, naming need and supply. Collective.
void require_memory(const World& world, Bytes per_rank);

}  // namespace lockstep::comm_bench
