// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "apps/train/options.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

/// Samples of the largest share of a step that is computed as one: of a rank, or of its largest shard or micro-batch.
std::int64_t largest_leaf(const Options& options, int ranks);

/// Lets every rank compute by what the file of --kernels says for this machine, threads and leaf. Rank 0 reads it,
/// measures what is missing there, and adds that; the others sleep meanwhile. Collective.
/// @return a line about it for people, on rank 0
/// @throws on every rank Error{io | corrupt} with the file, and Error{unsupported} where a rank cannot compute so
std::string use_kernel_choices(const World& world, const Options& options, const nn::Graph& graph, ops::Ops& ops,
                               int threads);

}  // namespace lockstep::train
