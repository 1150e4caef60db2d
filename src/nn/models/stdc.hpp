// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "nn/models/blocks.hpp"

/// The backbone of PP-LiteSeg, with PaddleSeg's names of tensors.
namespace lockstep::nn::models {

/// Adds STDC1 without its classifier ("backbone.features.0" and so on): two convolutions, then two blocks at each of
/// the strides 8, 16 and 32, of 256, 512 and 1024 channels. @return the maps of these strides, the finest first
/// @source Fan et al., "Rethinking BiSeNet For Real-time Semantic Segmentation", CVPR 2021
std::array<int, 3> add_stdc1(Graph& graph, int images);

}  // namespace lockstep::nn::models
