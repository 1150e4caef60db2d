// SPDX-License-Identifier: Apache-2.0
#include "nn/graph/passes.hpp"

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {

std::vector<std::string_view> OptimizationPasses::names() { return {"fuse", "recompute", "reuse-memory", "capture"}; }

void OptimizationPasses::disable(const std::string& name) {
  if (name == "fuse") {
    fuse = false;
  } else if (name == "recompute") {
    recompute = false;
  } else if (name == "reuse-memory") {
    reuse_memory = false;
  } else if (name == "capture") {
    capture = false;
  } else {
    throw Error(ErrorCode::invalid_argument, unknown("pass", name, names()));
  }
}

Graph after_passes(const Graph& graph, const OptimizationPasses& passes, bool synchronized, const ops::Ops& ops) {
  Graph passed = synchronized ? synchronize_batch_norms(graph) : graph;
  if (passes.fuse) {
    passed = fuse_activations(fuse_additions(pool_before_relu(passed)));
    if (ops.sums_in_convolutions()) passed = sum_in_convolutions(passed);
  }
  return passed;
}

}  // namespace lockstep::nn
