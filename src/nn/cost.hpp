// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/network.hpp"

namespace lockstep::nn {

/// What a layer has to do at least, whoever computes it: operations on numbers, and elements that are read or written
/// once, each tensor's own.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t elements = 0;
};

/// @param inputs  extents of the layer's inputs for the whole batch
/// @param input_gradients  whether backward has to make them
Cost cost(const Layer& layer, const std::vector<ops::Shape>& inputs, ops::Pass pass, bool input_gradients);

/// "convolution 3×3, stride 2, ReLU".
std::string describe(const LayerKind& kind);

}  // namespace lockstep::nn
