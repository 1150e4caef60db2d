// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// The kernels that compute a graph for one number of samples: one for each node, the format of each value, and the
/// conversions into formats that readers need.
struct Kernels {
  /// The conversion of one input of a node.
  struct Conversion {
    ops::KernelPtr there;  ///< null if the value already has the node's format
    ops::KernelPtr back;   ///< converts the gradient
  };
  /// The kernels of one node.
  struct OfNode {
    ops::KernelPtr kernel;
    std::vector<Conversion> inputs;
  };
  /// The source of an output of the graph, whose elements are row-major in the model's dtype.
  struct OfOutput {
    int reader = -1;         ///< a node that has converted its input so; −1: none
    std::size_t input = 0;   ///< the input of that node
    ops::KernelPtr convert;  ///< null if there is a reader, or the value has this format
  };
  std::vector<ops::Format> formats;  ///< one for each value
  std::vector<OfNode> nodes;
  std::vector<OfOutput> outputs;
  std::vector<ops::KernelPtr> addition;  ///< adds two gradients of a value; null if it has one reader
  std::vector<ops::KernelPtr> sum;       ///< adds up a parameter's gradients; null if there is only one
};

/// @param leaves  number of leaves of a step whose gradients are added up
/// @throws as ops::Ops::make
Kernels choose_kernels(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, std::size_t leaves);

}  // namespace lockstep::nn
