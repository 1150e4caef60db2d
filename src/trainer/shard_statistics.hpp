// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::trainer {

/// Overwrites each shard's running statistics with the average over the shards of all ranks, weighted by the samples
/// that each has seen, and added up in the canonical order; 0 in total leaves them alone. Collective.
/// @param states   of this rank's shards, one behind the other
/// @param samples  that each of them has seen
/// @param shards   of all ranks
/// @param own      this rank's
void average_over_shards(const Buffer& states, std::span<const std::int64_t> samples, int shards, const Share& own,
                         Communicator& communicator);

}  // namespace lockstep::trainer
