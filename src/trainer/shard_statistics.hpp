// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::trainer {

/// Overwrites elements with as many others; the memory may overlap.
void overwrite(const Buffer& to, const Buffer& from);

/// Overwrites each shard's running statistics with the average over the shards of all ranks, weighted by the samples
/// that each shard has seen, and added in the canonical order. If the total is 0, they keep their values. Collective.
/// @param states   running statistics of this rank's shards, one after the other
/// @param samples  number of samples that each of them has seen
/// @param shards   of all ranks
void average_over_shards(const Buffer& states, std::span<const std::int64_t> samples, const LeafShares& shards,
                         Communicator& communicator);

/// Does the same without shards: each rank has running statistics and has seen `samples`. Collective.
void average_over_ranks(const Buffer& state, std::int64_t samples, Communicator& communicator);

/// Overwrites the first part of running statistics with the average of all parts, weighted by the samples that each has
/// seen. If these are 0, it keeps its values.
void average_parts(const Buffer& parts, std::span<const std::int64_t> samples);

}  // namespace lockstep::trainer
