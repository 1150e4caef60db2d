// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "apps/train/options.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::train {

/// Returns the samples of the largest leaf of a step: of a rank's, or of its largest shard or micro-batch.
std::int64_t largest_leaf(const Options& options, int ranks);

/// Makes every rank use the algorithms that the file of --kernels has for this machine, number of threads and leaf.
/// Rank 0 reads the file, measures and adds what is missing; the others sleep meanwhile. Collective.
/// @return a line about it for people, on rank 0
/// @throws on every rank Error{io | corrupt} with the file, and Error{unsupported} if a rank cannot use an algorithm
std::string use_kernel_choices(const World& world, const Options& options, const nn::Graph& graph, ops::Ops& ops,
                               int threads);

}  // namespace lockstep::train
