// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/nn/graph.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// What computes a graph for one number of samples: a kernel for each node, the format of each value, and what brings a
/// value into the format that a reader wants.
struct Kernels {
  /// Of one input of a node.
  struct Conversion {
    std::unique_ptr<ops::Kernel> there;  ///< null where the value lies as the node wants it
    std::unique_ptr<ops::Kernel> back;   ///< of the gradient
  };
  /// Of one node.
  struct OfNode {
    std::unique_ptr<ops::Kernel> kernel;
    std::vector<Conversion> inputs;
  };
  std::vector<ops::Format> formats;  ///< of values
  std::vector<OfNode> nodes;
  std::vector<std::unique_ptr<ops::Kernel>> addition;  ///< of two gradients of a value; null where it has one reader
  std::vector<std::unique_ptr<ops::Kernel>> sum;       ///< of a parameter's gradients; null where there is only one
};

/// @param leaves  how many parts of a step have gradients to be added
/// @throws as ops::Ops::make
Kernels choose_kernels(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, std::size_t leaves);

}  // namespace lockstep::nn
