// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "nn/models/blocks.hpp"

/// Parts of PP-LiteSeg's decoder, with PaddleSeg's names of tensors. Each function returns the value that it adds last.
namespace lockstep::nn::models {

/// Adds the context of the coarsest map: the sum of its means over 1, 4 and 16 parts, each with a convolution. Its
/// convolutions have biases, as PaddleSeg's.
/// @source Zhao et al., "Pyramid Scene Parsing Network", CVPR 2017 (the means)
int add_seg_context(Graph& graph, const std::string& name, int in);

/// Adds the fusion of a map x with a coarser one y by spatial attention: x·a + y·(1 − a), where a follows from mean and
/// maximum over the channels of both.
/// @param channels  of the fused map
int add_seg_fusion(Graph& graph, const std::string& name, int fine, int coarse, std::int64_t channels);

/// Adds head `number`, whose logits have the size of the images.
/// @param channels  of the hidden map
int add_seg_head(Graph& graph, const DataSpec& data, int number, int in, std::int64_t channels);

}  // namespace lockstep::nn::models
