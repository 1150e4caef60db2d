// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// Returns the graph after its passes.
/// @param synchronized  whether batch norm computes mean and variance over several leaves
/// @param ops           the compute library that the passes are for
Graph after_passes(const Graph& graph, const OptimizationPasses& passes, bool synchronized, const ops::Ops& ops);

}  // namespace lockstep::nn
