// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/layout.hpp"
#include "lockstep/nn/network.hpp"

namespace lockstep::nn {

/// Indices into the layouts, in the order in which operators take them.
struct LayerTensors {
  std::vector<int> parameters;  ///< weight, bias (batch norm: gamma, beta)
  std::vector<int> state;       ///< batch norm: running mean, running variance
};

/// Every tensor of a network, named as in the `state_dict` of the same PyTorch module.
struct Tensors {
  Layout parameters;
  Layout state;
  std::vector<LayerTensors> of_layer;
};

Tensors lay_out(const Network& network);

}  // namespace lockstep::nn
