// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/types.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// Rejects sizes for which the nodes lack memory, because a node would swap, which measures its disk, or kill a rank.
/// @param per_rank  the buffers of one rank; back ends may use as much again for their own copies
/// @throws Error{unsupported}, on every rank, naming need and supply. Collective.
void require_memory(const World& world, Bytes per_rank);

}  // namespace lockstep::comm_bench
